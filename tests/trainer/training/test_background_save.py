"""The loop beside a save that is being written: one rank, an engine that only counts, a real checkpoint store."""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from structlog.testing import capture_logs
from tests.trainer.contract.specifications import changed
from tests.trainer.training.test_loop import Line
from torch import Tensor

from trainwright_trainer.checkpoint import CheckpointStore, Draft, FileDigest, StorageError, tensor_file
from trainwright_trainer.contract import ExitCode, RunSpec, Training
from trainwright_trainer.contract.engine import CAPABILITIES
from trainwright_trainer.contract.failures import DivergedError
from trainwright_trainer.contract.metrics import Phase
from trainwright_trainer.contract.sharding import Layout
from trainwright_trainer.data.dataset import Columns, Dataset
from trainwright_trainer.data.order import Samples
from trainwright_trainer.engine.base import HostMemory, Recipe, StepResult, TensorSnapshot
from trainwright_trainer.engine.waits import Waits
from trainwright_trainer.rank.group import Alone
from trainwright_trainer.rank.place import Place
from trainwright_trainer.training import loop
from trainwright_trainer.training.checkpointer import Checkpointer, EveryRank
from trainwright_trainer.training.loop import Loop, Outcome
from trainwright_trainer.training.reporting import Meter, Reporter
from trainwright_trainer.training.torch_learner import TorchLearner, Work

PATIENCE_SECONDS = 30.0
"""For what takes milliseconds: a test that comes so far has failed."""
STATE = "model.safetensors"


class Watching(Line):
    """Tells of each phase that the loop enters."""

    def __init__(self, on_phase: Callable[[Phase, int | None], None]) -> None:
        super().__init__({})
        self._on_phase = on_phase

    def phase(self, phase: Phase, step: int | None = None) -> None:
        super().phase(phase, step)
        self._on_phase(phase, step)


class OneRank:
    """A world of one rank."""

    place, device, control = Place(0, 1, 0, 0), torch.device("cpu"), Alone()
    waits = Waits(device)

    def new_group(self) -> Alone:
        return Alone()

    def all_reduce(self, tensor: Tensor) -> None: ...
    def broadcast(self, tensor: Tensor) -> None: ...
    def close(self) -> None: ...


class Numbers:
    """A task whose samples are numbers, and whose answer nobody asks for."""

    items_each = 1

    def collate(self, split: Any, samples: Samples) -> Mapping[str, Tensor]:
        return {"numbers": torch.from_numpy(samples.ids)}

    def items(self, batch: Mapping[str, Tensor]) -> int:
        return len(batch["numbers"])

    def measure(self, model: Any, batch: Any) -> Any:
        raise NotImplementedError


@dataclass
class Disk:
    """Writes snapshots, one thread at a time or not, after it has been asked."""

    before_write: Callable[[int], None]
    reserved: list[int] = field(default_factory=list)
    """The steps after which memory was asked for."""
    writing: list[int] = field(default_factory=list)
    at_once: int = 0
    """Most writes that were under way together."""

    def write(self, snapshot: TensorSnapshot, step: int, draft: Draft) -> list[FileDigest]:
        self.writing.append(step)
        self.at_once = max(self.at_once, len(self.writing))
        try:
            self.before_write(step)
            return snapshot.write(draft)
        finally:
            self.writing.remove(step)


class HeldBack:
    """A snapshot that goes through a disk."""

    def __init__(self, snapshot: TensorSnapshot, step: int, disk: Disk) -> None:
        self._snapshot, self._step, self._disk = snapshot, step, disk

    def reserve(self) -> None:
        self._disk.reserved.append(self._step)
        self._snapshot.reserve()

    def hold(self) -> None:
        self._snapshot.hold()

    def write(self, draft: Draft) -> list[FileDigest]:
        return self._disk.write(self._snapshot, self._step, draft)


class Counting:
    """Its state is how many steps it took."""

    capabilities = CAPABILITIES["ddp"]
    world, layout = OneRank(), Layout()

    def __init__(self, disk: Disk, diverges_at: int | None, on_step: Callable[[int], None]) -> None:
        self._disk, self._diverges_at, self._on_step = disk, diverges_at, on_step
        self.steps = torch.zeros((), dtype=torch.int64)

    def setup(self, recipe: Recipe) -> None: ...
    def initialise(self) -> None: ...
    def load(self, files: Any) -> None: ...
    def warm_up(self, batch: Any) -> None: ...
    def forward_backward(self, batch: Any, *, loss_denominator: float, sync: bool) -> None: ...

    def step(self, rate: float) -> StepResult:
        self.steps += 1  # in place, as an optimizer does: what is saved must be a copy
        step = int(self.steps)
        self._on_step(step)
        value = torch.tensor(float("nan") if step == self._diverges_at else 1.0)
        return StepResult(value, value, lambda: step != self._diverges_at)

    def evaluate(self, batch: Any) -> Tensor:
        return torch.zeros(2, dtype=torch.float64)

    def snapshot(self) -> HeldBack:
        return HeldBack(TensorSnapshot({STATE: {"steps": self.steps}}), int(self.steps), self._disk)


def attempt(
    directory: Path, disk: Disk, *, steps: int = 10, diverges_at: int | None = None,
    on_step: Callable[[int], None] = lambda step: None, on_phase: Callable[[Phase, int | None], None] = lambda phase, step: None,
    **settings: Any,
) -> tuple[Outcome, Line]:
    """A run that saves every four steps."""
    spec = RunSpec.model_validate(changed({
        "world.nodes": 1, "world.processes_per_node": 1, "work.duration": {"steps": steps},
        "work.batch": {"micro": 2}, "work.log_every_steps": 100,
        "work.checkpoints": {"directory": str(directory), "every_steps": 4, **settings},
        "lifecycle.save_seconds": 0.001, "lifecycle.grace_seconds": 60,
    }))
    assert isinstance(spec.work, Training)
    line, place, numbers = Watching(on_phase), OneRank.place, Columns({"numbers": torch.arange(64).numpy()})
    work = Work(spec.work, Counting(disk, diverges_at, on_step), Numbers(), Dataset(numbers, numbers, "numbers"), metadata={})
    report, together = Reporter(place, line), EveryRank(place, Alone())
    learner = TorchLearner(work, place, line, report, Alone(), Meter())
    checkpoints = Checkpointer(
        spec, spec.work.checkpoints, learner, line, place, reading=together, writing=together, attempt="a1",
        fingerprint="numbers", resume_before=None,
    )
    running = Loop(
        spec=spec, settings=spec.work.checkpoints, evaluate_every=None, place=place, link=line, report=report,
        group=Alone(), learner=learner, checkpoints=checkpoints,
    )
    try:
        return running.run(), line
    finally:
        running.close()


def saved(directory: Path) -> dict[int, int]:
    """Step -> the state in its checkpoint."""
    store = CheckpointStore(directory)
    return {record.step: int(tensor_file.decode(store.path(record, STATE))["steps"]) for record in store.records()}


def test_steps_go_on_while_a_save_is_written(tmp_path: Path) -> None:
    """The write of step 4 ends only after step 7 was taken: training that waited for it would never come there."""
    seventh, found = threading.Event(), list[dict[int, int]]()

    def before_write(step: int) -> None:
        if step == 4 and not seventh.wait(PATIENCE_SECONDS):
            raise AssertionError("training stood still")

    def on_step(step: int) -> None:
        if step == 7:
            found.append(saved(tmp_path))
            seventh.set()

    outcome, line = attempt(tmp_path, Disk(before_write), on_step=on_step)
    assert outcome == Outcome(ExitCode.DONE, 10, 10)
    assert found == [{}]  # nothing was committed yet
    assert line.committed_steps == [4, 8, 10]
    assert saved(tmp_path) == {4: 4, 8: 8, 10: 10}  # as they were when the saves began


def test_a_save_leaves_the_processors_to_training(tmp_path: Path) -> None:
    """Its thread has a lower priority than the thread that trains, and than the ranks beside it."""
    priorities = set[int]()

    def before_write(step: int) -> None:
        priorities.add(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))

    own = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    attempt(tmp_path, Disk(before_write), steps=4)
    assert priorities == {min(own + 10, 19)}
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == own


@pytest.mark.parametrize(("settings", "reserved"), [({}, [1]), ({"save": "blocking"}, []), ({"every_steps": None}, [])], ids=str)
def test_memory_is_found_once_and_only_for_copies(tmp_path: Path, settings: dict[str, Any], reserved: list[int]) -> None:
    disk = Disk(lambda step: None)
    attempt(tmp_path, disk, **settings)
    assert disk.reserved == reserved


def test_a_copy_into_memory_that_was_found_touches_no_new_page() -> None:
    def pages() -> int:
        return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt

    memory, state = HostMemory(), {STATE: {"weights": torch.ones(16 * 2**20)}}  # 64 MiB
    finding = threading.Thread(target=TensorSnapshot(state, memory).reserve)
    finding.start()
    finding.join()
    before = pages()
    TensorSnapshot(state, memory).hold()
    assert pages() - before < 1000, "of 16,384"


def test_the_next_save_waits_for_the_one_under_way(tmp_path: Path) -> None:
    """The write of step 4 goes on when step 8 is to be saved, and gives whoever did not wait the time to show."""
    next_save, another = threading.Event(), threading.Event()
    steps, reached = list[int](), list[int]()

    def on_phase(phase: Phase, step: int | None) -> None:
        if phase == "saving" and step == 8:
            next_save.set()

    def before_write(step: int) -> None:
        if step > 4:
            another.set()
        elif not next_save.wait(PATIENCE_SECONDS) or another.wait(0.2):
            raise AssertionError("two saves are under way")
        else:
            reached.append(max(steps))

    disk = Disk(before_write)
    outcome, line = attempt(tmp_path, disk, on_phase=on_phase, on_step=steps.append)
    assert outcome == Outcome(ExitCode.DONE, 10, 10)
    assert disk.at_once == 1
    assert reached == [8]  # training stood still meanwhile: what waits is bounded
    assert line.committed_steps == [4, 8, 10]


def diverged(directory: Path, before_write: Callable[[int], None], on_phase: Callable[[Phase, int | None], None]) -> None:
    """Step 6 is not finite, while step 4 is being saved."""
    with pytest.raises(DivergedError, match="step 6 is not finite"):
        attempt(directory, Disk(before_write), diverges_at=6, on_phase=on_phase)


@dataclass
class AfterDivergence:
    """Holds the write of step 4 back until a run that has diverged waits for it."""

    waited_for: threading.Event = field(default_factory=threading.Event)

    def on_phase(self, phase: Phase, step: int | None) -> None:
        if phase == "saving" and step == 6:
            self.waited_for.set()

    def before_write(self, step: int) -> None:
        assert self.waited_for.wait(PATIENCE_SECONDS)


def test_a_run_that_diverges_keeps_the_save_under_way(tmp_path: Path) -> None:
    held = AfterDivergence()
    diverged(tmp_path, held.before_write, held.on_phase)
    assert saved(tmp_path) == {4: 4}


def test_a_save_that_fails_hides_no_divergence(tmp_path: Path) -> None:
    held = AfterDivergence()

    def before_write(step: int) -> None:
        held.before_write(step)
        raise StorageError("write", tmp_path, "No space left on device", "free some")

    with capture_logs() as lines:
        diverged(tmp_path, before_write, held.on_phase)
    assert not saved(tmp_path)
    assert failures(lines) == [(4, 1)]
    assert not warnings(lines)


def test_a_save_that_hangs_does_not_hold_a_run_that_diverged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    let_go = threading.Event()

    def before_write(step: int) -> None:
        let_go.wait(PATIENCE_SECONDS)
        raise AssertionError("nobody waits for it any more")

    monkeypatch.setattr(loop, "SAVE_PATIENCE_SECONDS", 0.1)
    try:
        with capture_logs() as lines:
            diverged(tmp_path, before_write, lambda phase, step: None)
        assert warnings(lines) == [{"step": 4, "reason": "it took 0.1 s longer than expected"}]
    finally:
        let_go.set()


def refuse(directory: Path, *steps: int) -> Disk:
    """A volume that is full at the first save of these steps."""
    left = list(steps)

    def before_write(step: int) -> None:
        if step in left:
            left.remove(step)
            raise StorageError("write", directory, "No space left on device", "free some")

    return Disk(before_write)


@pytest.mark.parametrize("save", ["background", "blocking"])
def test_a_periodic_save_that_fails_ends_nothing(tmp_path: Path, save: str) -> None:
    with capture_logs() as lines:
        outcome, line = attempt(tmp_path, refuse(tmp_path, 4, 8, 16), steps=18, save=save)
    assert outcome == Outcome(ExitCode.DONE, 18, 18)
    assert line.committed_steps == [12, 18]
    assert saved(tmp_path) == {12: 12, 18: 18}
    assert failures(lines) == [(4, 1), (8, 2), (16, 1)]
    counts = [values["trainwright_checkpoint_failures"] for values in line.values if "trainwright_checkpoint_failures" in values]
    assert counts == [0, 1, 2, 3], "from nothing, so that the series is there before a save fails"
    assert not list(tmp_path.glob("step-4.*")), "what a full volume holds of a failed save is removed"


def test_one_more_in_a_row_than_is_allowed_ends_the_attempt(tmp_path: Path) -> None:
    with capture_logs() as lines, pytest.raises(StorageError, match="No space left"):
        attempt(tmp_path, refuse(tmp_path, 4, 8, 12), steps=100, failed_saves=2)
    assert failures(lines) == [(4, 1), (8, 2)]
    with pytest.raises(StorageError, match="No space left"):
        attempt(tmp_path / "other", refuse(tmp_path, 4), steps=100, failed_saves=0)


def test_the_last_save_is_tried_again_and_must_succeed(tmp_path: Path) -> None:
    outcome, line = attempt(tmp_path, refuse(tmp_path, 8), steps=8)  # its periodic save is of the same step
    assert outcome == Outcome(ExitCode.DONE, 8, 8)
    assert line.committed_steps == [4, 8]
    outcome, _ = attempt(tmp_path / "once", refuse(tmp_path, 6), steps=6)  # the last save itself
    assert outcome == Outcome(ExitCode.DONE, 6, 6)
    with pytest.raises(StorageError, match="No space left"):
        attempt(tmp_path / "twice", refuse(tmp_path, 6, 6), steps=6)


def failures(lines: Iterable[Mapping[str, Any]]) -> list[tuple[int, int]]:
    """Step of each save that failed while the run went on, and how many in a row."""
    return [(line["step"], line["in_a_row"]) for line in lines if line["event"] == "checkpoint_failed"]


def warnings(lines: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Of saves that came to nothing."""
    found = [line for line in lines if line["event"] == "checkpoint_not_finished"]
    return [{name: line[name] for name in ("step", "reason")} for line in found]
