"""A script on a Ray cluster whose image has Ray and torch and nothing of ours: head and workers bring the supervisor along.

Its loop is one of Ray Train's, with the adapter's functions.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.bare_image import make_image
from tests.engines.processes import ROOT
from tests.engines.ray.count import RESULT
from tests.engines.rehearsed import PROJECT, Rehearsal
from tests.processes import wait_until
from tests.served import SUPERVISED

from trainwright_trainer.contract import ExitCode
from trainwright_trainer.contract.ledger import AttemptEnded, AttemptStarted

pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).with_name("count.py")
COMPILE = """
import json, sys, yaml
from pathlib import Path
from trainwright import load_cluster
from trainwright.cluster.addons import SupervisorImages
from trainwright.compile import compile_run
from trainwright.run import Run
image = "registry.example.com/trainwright/supervisor@sha256:" + "b" * 64
cluster = load_cluster("charts/clusters/ray-l40s.yaml").model_copy(update={"supervisor": SupervisorImages(image=image)})
print(yaml.safe_dump_all(compile_run(Run(**json.load(sys.stdin)), cluster).manifests, width=1 << 20))
"""
RANKS = 2
RUN: dict[str, Any] = {
    "run": "ray-script", "team": "research", "namespace": "ray", "cluster": "ray-l40s",
    "image": "registry.example.com/research/ray:2.60.0@sha256:" + "b" * 64,
    "topology": {"kind": "ray", "nodes": RANKS, "gpus_per_node": 0}, "security": {"user": 1000, "read_only_root": True},
    "workload": {"kind": "script", "command": ["python", "/app/count.py"]}, "supervisor": "brought",
    "checkpoints": {"by": "script", "lineage": "counted"}, "mounts": {"/checkpoints": {"claim": "checkpoints"}},
    # A node that is told to end waits until nothing runs there, and what Ray Train has left on a head never ends.
    "env": {"GO": "/checkpoints/go", "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "1"},
}


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With Ray's command line by its own Python, and what a rehearsal knows Ray's dashboard by."""
    folder = make_image(tmp_path_factory.mktemp("image"))
    (packages,) = folder.glob("lib/python3*/site-packages")
    (known,) = Path(sysconfig.get_path("purelib")).glob("aiohttp_cors-*.dist-info")
    (packages / known.name).symlink_to(known)
    program = folder / "bin" / "ray"
    program.write_text(f"#!{folder}/bin/python\nimport sys\nfrom ray.scripts.scripts import main\nsys.exit(main())\n")
    program.chmod(0o755)
    return folder


def rehearsal(folder: Path, image: Path) -> Rehearsal:
    run = RUN | {"files": {"/app/count.py": SCRIPT.read_text()}}
    compiled = subprocess.run(
        [PROJECT / "python", "-c", COMPILE], input=json.dumps(run), cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    )
    (folder / "run.yaml").write_text(compiled.stdout)
    return Rehearsal(folder / "run.yaml", folder, image)


class Played:
    """One rehearsal, whose driver is told to end once there is a checkpoint; the next one goes to its end."""

    def __init__(self, run: Rehearsal) -> None:
        self.run = run

    def interrupt(self) -> None:
        wait_until(self.committed, "a checkpoint", told=self.told)
        [driver] = self.drivers()
        os.kill(driver, signal.SIGTERM)
        wait_until(lambda: len(self.run.events(AttemptEnded)) == 1, "its end", told=self.told)
        (self.run.workspace / "claims" / "checkpoints" / "go").touch()

    def committed(self) -> bool:
        return any(self.run.workspace.rglob("commits/step-*.json"))

    def drivers(self) -> Iterator[int]:
        """Process ids of the supervisor that Ray's job server has started."""
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
                if words[-2:] == ["trainwright_trainer", "ray"] and words[0].startswith(str(self.run.workspace)):
                    yield int(folder.name)

    def told(self) -> str:
        return f"{self.run.output}\n{self.run.logs}"


@pytest.mark.nightly
@pytest.mark.rehearsal
def test_told_to_end_it_saves_and_goes_on_in_the_next_cluster(tmp_path: Path, image: Path) -> None:
    play = Played(rehearsal(tmp_path, image))
    assert play.run.follow(meanwhile=play.interrupt) == 0, play.told()
    first, last = play.run.events(AttemptEnded)
    assert (first.code, last.code) == (ExitCode.PREEMPTED_SAVED, ExitCode.DONE)
    assert f"exit code {ExitCode.PREEMPTED_SAVED:d}" in play.run.output, "of Ray's job, in the status of the RayJob"
    assert [event.committed_step for event in play.run.events(AttemptStarted)] == [None, first.committed_step]
    assert play.told().count(f"begins at step {first.committed_step}") >= RANKS
    assert {*SUPERVISED, "trainwright_step", "trainwright_loss", "trainwright_committed_step"} <= play.run.scraped
    assert play.told().count(RESULT) >= RANKS, "as without an interruption"
