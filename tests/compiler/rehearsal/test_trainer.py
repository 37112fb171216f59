"""The real trainer, from the YAML in dist/: two pods, checkpoints, a signal, a lost peer."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import closing, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.compiler.compiling import TODAY
from tests.compiler.projects import ROOT
from tests.compiler.rehearsal.stage import DIGITS, LLAMA, Recorder, edit_specification, play, stated
from tests.processes import PATIENCE_SECONDS
from tests.served import served_by
from tests.trainer.data.tokenizer_files import LIBRARY, byte_level

from trainwright.compile import compile_run
from trainwright.project.load import load_cluster, load_run_file
from trainwright.rehearsal import rehearse_file
from trainwright.rehearsal.observer import Event
from trainwright.rehearsal.stated.objects import objects_in
from trainwright.rehearsal.stated.pod import Pod

pytestmark = pytest.mark.slow

HTTP_PORT = 9400

REHEARSE = """
import sys
from pathlib import Path
from rich.console import Console
from trainwright.rehearsal import Options, console, rehearse
from trainwright.rehearsal.stated.objects import objects_in
observer = console.ConsoleObserver(Console(width=200))
options = Options(steps=400, ready_seconds=float(sys.argv[3]))
result = rehearse(objects_in(Path(sys.argv[1])), Path(sys.argv[2]), options, observer)
console.print_outcome(Console(width=200), result, Path(sys.argv[2]))
sys.exit(result.exit_code)
"""


class Rehearsal:
    """``rehearse`` in a process of its own, whose output can be waited for."""

    def __init__(self, file: Path, workspace: Path, log: Path) -> None:
        self._log = log
        with log.open("wb") as output:
            command = [sys.executable, "-u", "-c", REHEARSE, str(file), str(workspace), str(PATIENCE_SECONDS)]
            self.process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=workspace.parent)

    @property
    def text(self) -> str:
        return self._log.read_text()

    def until(self, words: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while words not in self.text:
            assert self.process.poll() is None, f"it ended before {words!r}:\n{self.text}"
            assert time.monotonic() < deadline, f"{words!r} did not come:\n{self.text}"
            time.sleep(0.05)

    def finish(self) -> int:
        return self.process.wait(PATIENCE_SECONDS)

    def __enter__(self) -> Rehearsal:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait(PATIENCE_SECONDS)


class Scraper(Recorder):
    """Reads pod 0's metrics whenever it says something, as Prometheus does now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.served = set[str]()

    def log_event(self, pod: Pod, container: str, event: Event) -> None:
        super().log_event(pod, container, event)
        if pod.index == 0:
            asked = HTTPConnection("pod")
            with suppress(OSError), closing(asked):
                asked.sock = self.openings[-1].setting.network.connect(pod.slot.number, HTTP_PORT, 5.0)
                asked.request("GET", "/metrics")
                samples = re.findall(r"^([a-z_]+)(?:{.*})? ", asked.getresponse().read().decode(), flags=re.MULTILINE)
                self.served |= {name.removesuffix("_total") for name in samples}


def promised(path: Path) -> frozenset[str]:
    """What the run of a file of ``dist/`` is taken to serve."""
    file = load_run_file(ROOT / "charts" / "runs" / f"{path.name.partition('.')[0]}.yaml", "")
    cluster = load_cluster(ROOT / "charts" / "clusters" / f"{file.run.cluster}.yaml")
    spec = compile_run(file.run, cluster, today=TODAY).resolution.spec
    assert spec is not None
    return served_by(spec)


def pod_processes(workspace: Path, index: int) -> list[int]:
    """Processes of the pods of an index, by the environment that they were started with."""
    wanted, found = f"JOB_COMPLETION_INDEX={index}".encode(), []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            environment = (folder / "environ").read_bytes().split(b"\0")
            if wanted in environment and any(str(workspace).encode() in value for value in environment):
                found.append(int(folder.name))
    return found


def test_it_trains_and_a_second_rehearsal_has_nothing_to_do(tmp_path: Path) -> None:
    file = DIGITS
    console = Console(file=io.StringIO(), width=200)
    scraper = Scraper()
    found = objects_in(file)  # held-out data is looked at between steps too: what the last look says nobody may come to ask for
    edit_specification(found, lambda document: document["work"].update(evaluation={"every_steps": 100}))
    outcome, recorder = play(found, tmp_path / "w", scraper)
    assert (outcome.status, outcome.exit_code) == ("Complete", 0)
    assert scraper.served == promised(DIGITS), "each panel and alert has a series, and no series is left out"
    training = outcome.training
    assert training.accuracy is not None
    assert training.accuracy > 0.9
    assert training.first_loss is not None
    assert training.last_loss is not None
    assert training.last_loss < training.first_loss / 4
    assert training.checkpoint is not None
    assert Path(training.checkpoint).is_dir()
    assert {pod.index for pod in recorder.ready} == {0, 1}
    assert [message.reason for message in outcome.termination_messages] == ["Completed", "Completed"]
    assert rehearse_file(file, workspace=tmp_path / "w", console=console) == 0
    assert isinstance(console.file, io.StringIO)
    assert "its pods will end at once" in console.file.getvalue()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_pod_that_is_killed_then_a_signal_and_on_from_the_committed_step(tmp_path: Path) -> None:
    """A lost pod comes back alone; a signal ends all in order; the next rehearsal takes it from there."""
    file = DIGITS
    with Rehearsal(file, tmp_path / "w", tmp_path / "first.log") as first:
        first.until("step 100 is committed")
        for pid in pod_processes(tmp_path / "w", 1):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        first.until("is lost: its connection ended")
        first.until("step 200 is committed")
        first.process.send_signal(signal.SIGTERM)
        assert first.finish() == 143
    assert "node 1 gets a new pod in 2 s, in a cluster 10 s (failure 1)" in first.text
    assert "node 0 gets a new pod" not in first.text
    committed = int(first.text.rpartition("Step ")[2].split()[0])
    assert committed >= 200
    assert f"Step {committed} is committed: rehearse again to resume from it." in first.text
    with Rehearsal(file, tmp_path / "w", tmp_path / "second.log") as second:
        assert second.finish() == 0
    assert f"training from step {committed}:" in second.text
    assert "Complete: CompletionsReached" in second.text


def token_files(folder: Path) -> Path:
    """Two shards that the command wrote, from a part of the Python library's text and a tokenizer made for it."""
    tokenizer, texts, tokens = byte_level(folder / "tokenizer", 2000), sorted(LIBRARY.glob("*.py")), folder / "tokens"
    tokens.mkdir()
    for number, shard in enumerate((texts[:20], texts[20:40])):
        command = ["tokenize", *map(str, shard), "--tokenizer", str(tokenizer), "--output", str(tokens / f"{number:03}.bin")]
        subprocess.run([sys.executable, "-m", "trainwright_trainer", *command], check=True)
    return tokens


@pytest.mark.nightly
def test_a_run_on_gpus_proves_its_wiring_here(tmp_path: Path) -> None:
    """The pods read a piece of real token files, where the cluster has the whole, and no pod waits for it to be fetched."""
    recorder, found = Recorder(), objects_in(LLAMA)
    mounts = {"/data/pretraining": token_files(tmp_path)}
    outcome, _ = play(found, tmp_path / "w", recorder, mounts=mounts)
    assert outcome.status == "Complete", outcome.message
    assert outcome.training.last_loss is not None
    assert outcome.training.first_loss is not None
    assert outcome.training.last_loss < outcome.training.first_loss
    assert "is not fetched here" in " ".join(stated(recorder))
    assert outcome.training.step == 20
    assert outcome.committed_step == 20


@pytest.mark.nightly
def test_a_killed_rank_and_a_damaged_checkpoint_cost_steps_and_nothing_else(tmp_path: Path) -> None:
    """The undisturbed run that it is compared with has the same losses, bit by bit."""
    chosen: dict[str, Any] = {"steps": 40, "faults": (("kill", "rank-1@25"),), "corrupt": True}
    outcome, _ = play(objects_in(DIGITS), tmp_path / "w", **chosen)
    verdict = outcome.verdict.as_json()
    assert outcome.status == "Complete", outcome.message
    [made] = verdict["faults"]
    assert made["replaced"] == [], "a rank that is lost costs no pod"
    damaged = int(Path(made["damaged"]).name.partition(".")[0].removeprefix("step-"))
    beside = (damaged - 10, damaged + 10)  # there is one every 10 steps; the next may have been under way
    assert made["resumed_from"] in beside, "the newest does not verify"
    assert made["steps_lost"] == made["step"] - made["resumed_from"]
    assert verdict["undisturbed"]["equal"]
    assert verdict["undisturbed"]["compared_steps"] == 40


def test_a_run_that_cannot_be_built_fails_the_job_with_its_code(tmp_path: Path) -> None:
    manifests = objects_in(DIGITS)
    edit_specification(manifests, lambda document: document["work"].update(initial_weights="/checkpoints/none"))
    outcome, _ = play(manifests, tmp_path / "w")
    assert (outcome.status, outcome.reason) == ("Failed", "PodFailurePolicy")
    assert "failed with exit code 10 matching FailJob rule at index 0" in outcome.message
    assert "initial_weights" in outcome.pods[0].containers[0].message
