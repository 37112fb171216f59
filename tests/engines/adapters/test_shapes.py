"""Programs of five shapes in images that have nothing of ours, from compiled manifests: their pods bring the supervisor along.

Each is played whole; told to end, killed, and resumed, with the result of the whole one; and with a permanent exit code.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.bare_image import make_image
from tests.engines.adapters.tiny import write_model, write_series, write_texts
from tests.engines.processes import ROOT
from tests.engines.rehearsed import PROJECT, Rehearsal
from tests.processes import wait_until
from tests.served import SUPERVISED

from trainwright_trainer.contract import ExitCode, TerminationMessage
from trainwright_trainer.contract.ledger import AttemptStarted

DIST = ROOT / "dist"
RUNS = Path(__file__).with_name("runs.py")
COMPILE = """
import sys, yaml
from pathlib import Path
from trainwright import load_cluster
from trainwright.compile import compile_run
from trainwright.reading.run_module import load_python_runs
cluster = load_cluster("charts/clusters/laptop.yaml")
for run, *_ in load_python_runs(Path(sys.argv[1])):
    Path(sys.argv[2], f"{run.run}.k8s.yaml").write_text(yaml.safe_dump_all(compile_run(run, cluster).manifests))
"""
TOLD = {"trainwright_step", "trainwright_loss", "trainwright_step_seconds", "trainwright_committed_step"}
"""Metrics of a program that tells its steps."""
CLAIM = "training-checkpoints"
TELL = ("environ", "cmdline")
"""What /proc tells of a process."""


@dataclass(frozen=True)
class Shape:
    """One way in which people write a program."""

    file: str = ""
    """Below dist/; empty where this test compiles it."""
    result: str = "result"
    """In the directory of its checkpoints: what two runs are compared by."""
    work: dict[str, Any] | None = None
    """In place of what the run states."""
    data: Callable[[Path], object] = bool
    """Writes what stands for /data into a folder."""
    calls_us: bool = True
    """Whether its steps are served, and SIGTERM is answered by a commit: a shell cannot."""
    leaves: str = "raise SystemExit(14)\n"
    """As its first line: it ends at once, with that code."""


def texts(folder: Path) -> None:
    write_model(folder / "model")
    write_texts(folder / "texts.jsonl")


SHAPES = {
    "ddp": Shape(),
    "transformers": Shape(
        "h100-ib/training/runs/qwen-texts", "final/model.safetensors",
        {"config": {"model": "/data/model", "texts": "/data/texts.jsonl", "steps": 60, "save_steps": 5, "learning_rate": 1e-2}},
        texts,
    ),
    "lightning": Shape(
        "h100-ib/training/runs/demand-forecast", "final.pt",
        {"config": {"series": "/data/demand.npy", "epochs": 2, "batches": 150, "batch": 8, "width": 16, "save_steps": 20}},
        lambda folder: write_series(folder / "demand.npy"),
    ),
    "bash": Shape(
        "laptop/training/runs/shell-script", "step.0", {"command": ["/bin/sh", "/app/train.sh", "120"]}, calls_us=False,
        leaves="exit 14\n",
    ),
    "function": Shape(),
}  # fmt: skip


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compiled")
    subprocess.run([PROJECT / "python", "-c", COMPILE, RUNS, folder], cwd=ROOT, check=True)
    return folder


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_image(tmp_path_factory.mktemp("image"))


@dataclass(frozen=True)
class Played:
    """One rehearsal of a shape, with its own volumes."""

    shape: Shape
    run: Rehearsal

    def whole(self) -> None:
        assert self.run.follow(meanwhile=self.let_go) == 0, self.told()

    def let_go(self) -> None:
        """The programs of this test wait a moment at each step until now."""
        claim = self.run.workspace / "claims" / CLAIM
        wait_until(claim.is_dir, "its volume", told=self.told)
        (claim / "go").touch()

    def interrupt(self) -> None:
        """Tell a pod to end once there is progress, kill a rank once there is more, and then let it go to its end."""
        self.await_attempt(1)
        self.send(signal.SIGTERM, "JOB_COMPLETION_INDEX=1", "container_init.py")
        self.await_attempt(2)
        self.send(signal.SIGKILL, "RANK=0")
        self.let_go()

    def await_attempt(self, number: int) -> None:
        """Until that attempt has committed a checkpoint, or where nothing can be, until both its ranks run."""
        if not self.shape.calls_us:
            wait_until(lambda: self.run.logs.count(" of 2 begins at step ") >= 2 * number, "both ranks", told=self.told)
            return
        wait_until(lambda: len(self.starts()) >= number, f"attempt {number}", told=self.told)
        before = self.starts()[-1] or 0
        wait_until(lambda: self.committed() > before, f"a commit of attempt {number}", told=self.told)

    def committed(self) -> int:
        found = self.run.workspace.rglob("commits/step-*.json")
        return max((int(path.name.removeprefix("step-").partition(".")[0]) for path in found), default=0)

    def starts(self) -> list[int | None]:
        """The steps that attempts began from, by the ledger."""
        return [event.committed_step for event in self.run.events(AttemptStarted)]

    def send(self, number: signal.Signals, variable: str, word: str = "") -> None:
        """A signal to the one process of this run that leads a session, has that variable, and that word in its command."""
        [pid] = [pid for pid, variables, words in self.processes() if variable in variables and word in " ".join(words)]
        os.kill(pid, number)

    def processes(self) -> Iterator[tuple[int, list[str], list[str]]]:
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                variables, words = ((folder / name).read_bytes().decode(errors="replace").split("\0")[:-1] for name in TELL)
                if str(self.run.workspace) in "".join(variables) and os.getsid(pid := int(folder.name)) == pid:
                    yield pid, variables, words

    def codes(self) -> list[int]:
        """Exit codes of all pods, in the order in which they ended."""
        ended = sorted(self.run.workspace.glob("pods/*/*.termination"), key=lambda path: path.stat().st_mtime)
        return [TerminationMessage.model_validate_json(path.read_bytes()).code for path in ended if path.stat().st_size]

    def result(self) -> bytes:
        [path] = (self.run.workspace / "claims").rglob(self.shape.result)
        return path.read_bytes()

    def told(self) -> str:
        return f"{self.run.output}\n{self.run.logs}"


@pytest.fixture(params=[
    pytest.param(name, marks=pytest.mark.nightly) if name in ("ddp", "function", "lightning") else name for name in SHAPES
])
def play(request: pytest.FixtureRequest, compiled: Path, image: Path, tmp_path: Path) -> Callable[..., Played]:
    """Makes rehearsals of a shape by name; its program ends at once where it ``leaves``."""
    shape = SHAPES[request.param]
    (tmp_path / "data").mkdir()
    shape.data(tmp_path / "data")

    def make(name: str, *, leaves: bool = False) -> Played:
        folder = tmp_path / name
        folder.mkdir()
        source = DIST / f"{shape.file}.k8s.yaml" if shape.file else compiled / f"{request.param}.k8s.yaml"
        objects = list(yaml.safe_load_all(source.read_text()))
        [files] = [one["data"] for one in objects if one["kind"] == "ConfigMap"]
        spec, [program] = json.loads(files["run.json"]), files.keys() - {"run.json"}
        spec["work"] |= (shape.work or {}) | {"protocol": leaves}
        files |= {"run.json": json.dumps(spec), program: shape.leaves * leaves + files[program]}
        (folder / "run.yaml").write_text(yaml.safe_dump_all(objects, width=1 << 20))
        run = Rehearsal(folder / "run.yaml", folder, image)
        run.mount("/data", tmp_path / "data")
        return Played(shape, run)

    return make


@pytest.mark.rehearsal
def test_interrupted_it_ends_as_one_that_was_not(play: Callable[..., Played]) -> None:
    whole, parts = play("whole"), play("parts")
    whole.whole()
    assert whole.codes() == [ExitCode.DONE] * 2
    assert parts.run.follow(meanwhile=parts.interrupt) == 0, parts.told()
    assert {*SUPERVISED, *(TOLD if parts.shape.calls_us else ())} <= parts.run.scraped
    assert parts.result() == whole.result()
    told, *others = parts.codes()
    assert others == [ExitCode.DONE] * 2, "a lost rank ends no pod, nor does a pod that is told to end any other"
    if parts.shape.calls_us:
        assert told == ExitCode.PREEMPTED_SAVED
        first, second, third = parts.starts()
        assert first is None
        assert second is not None
        assert third is not None
        assert 0 < second < third
    else:
        assert not parts.committed(), "nothing that a shell saves is a checkpoint of ours"
        assert told == ExitCode.PREEMPTED_NOT_SAVED, "nor can a shell say that it has saved"
        begun = set(re.findall(r"rank (\d) of 2 begins at step (\d+)", parts.run.logs))
        saved = set(re.findall(r"rank (\d) saved step (\d+)", parts.run.logs))
        assert {("0", "0"), ("1", "0")} <= begun
        assert {rank for rank, _ in saved} == {"0", "1"}
        assert saved <= begun, "what it saved by itself is there"


def test_a_permanent_exit_code_ends_the_run(play: Callable[..., Played]) -> None:
    left = play("left", leaves=True)
    assert left.run.follow() == 1, left.told()
    assert "exit code 14 matching FailJob rule" in left.run.output
    assert ExitCode.DIVERGED in left.codes()
