"""The loop on a learner that only counts and is whole on every rank, with a real checkpoint store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.trainer.contract.specifications import BOOSTING, TRACKER, changed

from trainwright_trainer.checkpoint import CheckpointStore, Piece, Snapshot, StorageError, read_complete
from trainwright_trainer.contract import Boosting, Cause, ExitCode, RunSpec
from trainwright_trainer.contract.failures import DataError, DivergedError, NoCheckpointError
from trainwright_trainer.contract.metrics import Phase, StepSplit
from trainwright_trainer.rank.ending import code_of
from trainwright_trainer.rank.group import Alone
from trainwright_trainer.rank.messages import Action
from trainwright_trainer.rank.place import Place
from trainwright_trainer.training.checkpointer import Checkpointer, Rank0Alone
from trainwright_trainer.training.learner import Metadata, Position, Restored, StateSnapshot
from trainwright_trainer.training.loop import Loop, Outcome
from trainwright_trainer.training.reporting import Reporter

PLACE = Place(0, 1, 0, 0)


class Line:
    """A link that orders what a test wrote down, by tick."""

    def __init__(self, orders: Mapping[int, Action]) -> None:
        self._orders = orders
        self.phases: list[str] = []
        self.committed_steps: list[int] = []
        self.values: list[Mapping[str, float]] = []

    def boundary(self, tick: int) -> Action | None:
        return self._orders.get(tick)

    def phase(self, phase: Phase, step: int | None = None) -> None:
        self.phases.append(phase)

    def committed(self, step: int, seconds: float) -> None:
        self.committed_steps.append(step)

    def agree_through(self, reduce_sums: Callable[[Sequence[float]], list[float]]) -> None:
        assert reduce_sums([1.0]) == [1.0]

    def measured(self, values: Mapping[str, float]) -> None:
        self.values.append(values)

    def mark(self) -> None: ...
    def pace(self, step: int, split: StepSplit) -> None: ...
    def result(self, code: ExitCode, cause: Cause | None = None, step: int | None = None) -> None: ...


class Counting:
    """Its state is a list of the steps it took."""

    step_samples, saves_in_background, evaluates_before_saving = 10, False, True

    def __init__(self, target: int, diverges_at: int | None = None) -> None:
        self.target_samples, self._diverges_at = target * 10, diverges_at
        self.steps: list[int] = []
        self.scored: list[int] = []
        self.published = False

    @property
    def position(self) -> Position:
        return Position(len(self.steps), len(self.steps) * 10)

    @property
    def done(self) -> bool:
        return len(self.steps) * 10 >= self.target_samples

    def metadata(self) -> Metadata:
        return {"scored": list(self.scored)}

    def snapshots(self) -> list[Snapshot]:
        return [StateSnapshot(self._files)]

    def _files(self) -> Mapping[str, Iterable[Piece]]:
        return {"steps.txt": [repr(self.steps).encode()]}

    def load(self, checkpoint: Restored) -> None:
        self.steps, self.scored = eval(checkpoint.read("steps.txt")), list(checkpoint.metadata["scored"])  # noqa: S307
        assert self.position == checkpoint.position

    def initialise(self) -> None: ...
    def warm_up(self) -> None: ...
    def stalled(self, seconds: float) -> None: ...
    def close(self) -> None: ...

    def step(self) -> None:
        self.steps.append(len(self.steps) + 1)

    def check(self) -> None:
        if self._diverges_at == len(self.steps):
            raise DivergedError("not finite")

    def evaluate(self, before_batch: Callable[[], None]) -> None:
        self.scored.append(len(self.steps))

    def publish(self) -> None:
        self.published = True


def attempt(
    directory: Path, learner: Counting, orders: Mapping[int, Action] | None = None, *, number: int = 1, fingerprint: str = "data",
    grace: float = 60, resume_before: int | None = None, identity: str = "small-1a2b3c4d", **checkpoints: Any,
) -> tuple[Outcome, Line]:
    settings = {"directory": str(directory), "every_steps": 4, **checkpoints}
    document = changed({
        "world.rendezvous": TRACKER, "world.nodes": 1, "world.processes_per_node": 1, "work": BOOSTING,
        "work.checkpoints": settings, "identity": identity, "lifecycle.grace_seconds": grace, "lifecycle.save_seconds": 1,
    })
    spec = RunSpec.model_validate(document)
    assert isinstance(spec.work, Boosting)
    line, group = Line(orders or {}), Rank0Alone(PLACE, Alone())
    checkpointer = Checkpointer(
        spec, spec.work.checkpoints, learner, line, PLACE, reading=group, writing=group, attempt=f"a{number}",
        fingerprint=fingerprint, resume_before=resume_before,
    )
    report = Reporter(PLACE, line)
    loop = Loop(
        spec=spec, settings=spec.work.checkpoints, evaluate_every=2, place=PLACE, link=line, report=report,
        group=Alone(), learner=learner, checkpoints=checkpointer,
    )
    try:
        outcome = loop.run()
    finally:
        loop.close()
    return outcome, line


def test_from_first_to_last(tmp_path: Path) -> None:
    learner = Counting(10)
    outcome, line = attempt(tmp_path, learner)
    assert outcome == Outcome(ExitCode.DONE, 10, 10)
    assert learner.scored == [2, 4, 6, 8, 10]
    assert learner.published
    assert line.committed_steps == [4, 8, 10]
    assert [phase for phase in line.phases if phase != "evaluating"][:4] == ["restoring", "warming_up", "training", "training"]
    assert line.phases[-1] == "finished"
    complete = read_complete(tmp_path)
    assert complete is not None
    assert (complete.step, complete.attempt) == (10, "a1")


def test_an_evaluation_is_in_the_checkpoint_of_its_step(tmp_path: Path) -> None:
    attempt(tmp_path, Counting(10))
    records = {record.step: record.metadata["scored"] for record in CheckpointStore(tmp_path).records()}
    assert records == {4: [2, 4], 8: [2, 4, 6, 8], 10: [2, 4, 6, 8, 10]}


@pytest.mark.parametrize("beside", [True, False])
def test_the_last_save_comes_before_an_evaluation_that_fails(tmp_path: Path, beside: bool) -> None:
    """Where the scores are no part of the checkpoint."""
    class Failing(Counting):
        evaluates_before_saving = False

        def evaluate(self, before_batch: Callable[[], None]) -> None:
            if self.done:
                raise ZeroDivisionError("no items")

    with pytest.raises(ZeroDivisionError):
        attempt(tmp_path, Failing(10), every_steps=4 if beside else None)
    assert CheckpointStore(tmp_path).records()[0].step == 10


def test_told_to_save_and_to_stop(tmp_path: Path) -> None:
    outcome, line = attempt(tmp_path, Counting(10), {3: "save", 7: "stop"})
    assert outcome == Outcome(ExitCode.PREEMPTED_SAVED, 6, 6)
    assert line.committed_steps == [2, 4, 6]
    learner = Counting(10)
    outcome, line = attempt(tmp_path, learner, number=2)
    assert outcome == Outcome(ExitCode.DONE, 10, 10)
    assert line.committed_steps == [6, 8, 10]
    assert learner.steps == list(range(1, 11))
    assert learner.scored == [2, 4, 6, 8, 10]


def test_a_save_is_tried_however_little_time_is_left(tmp_path: Path) -> None:
    outcome, line = attempt(tmp_path, Counting(10), {4: "stop"}, grace=5.5)
    assert outcome == Outcome(ExitCode.PREEMPTED_SAVED, 3, 3)
    assert line.committed_steps == [3]


def test_what_is_saved_is_finite(tmp_path: Path) -> None:
    with pytest.raises(DivergedError):
        attempt(tmp_path, Counting(10, diverges_at=8))
    assert [record.step for record in CheckpointStore(tmp_path).records()] == [4]


@pytest.mark.parametrize(("fitted", "code"), [(0, ExitCode.OUT_OF_MEMORY), (2, ExitCode.OUT_OF_MEMORY_LATER)])
def test_memory_that_runs_out_after_a_step_has_fitted_is_tried_again(tmp_path: Path, fitted: int, code: ExitCode) -> None:
    class Greedy(Counting):
        def step(self) -> None:
            if len(self.steps) == 4 + fitted:
                raise MemoryError("no room")
            super().step()

    attempt(tmp_path, Counting(4))
    with pytest.raises(Exception, match="no room") as raised:  # steps of the attempt before this one say nothing
        attempt(tmp_path, Greedy(10), number=2)
    assert code_of(raised.value) is code
    if fitted:
        assert str(raised.value) == "MemoryError: no room; steps 5 to 6 of this attempt fitted, so that it is tried again"


def test_a_finished_run_that_is_run_again(tmp_path: Path) -> None:
    attempt(tmp_path, Counting(10))
    learner = Counting(10)
    outcome, line = attempt(tmp_path, learner, number=2)
    assert outcome == Outcome(ExitCode.DONE, 10, 10)
    assert line.committed_steps == [10]


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(NoCheckpointError, match="resume is required"):
        attempt(tmp_path, Counting(10), resume="required")
    attempt(tmp_path, Counting(4), number=2)
    with pytest.raises(DataError, match="the data is not what step 4 was trained on"):
        attempt(tmp_path, Counting(8), number=3, fingerprint="other")
    learner = Counting(8)
    attempt(tmp_path, learner, number=4, resume="never")  # of its own identity an attempt goes on
    assert len(learner.steps) == 8
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError):
        attempt(tmp_path / "file", Counting(8))


def test_what_another_run_came_to_stays_beside_one_that_begins_anew(tmp_path: Path) -> None:
    attempt(tmp_path, Counting(10))
    for number, target in ((2, 6), (3, 12), (4, 16)):
        attempt(tmp_path, Counting(target), {6: "stop"}, number=number, identity="anew-2", resume="never", keep=2, every_steps=1)
        found = {(record.identity, record.step) for record in CheckpointStore(tmp_path).records()}
        assert ("small-1a2b3c4d", 10) in found
        assert len(found) == 3
    attempt(tmp_path, Counting(16), number=5, identity="anew-2", resume="never", keep=2, every_steps=1)
    attempt(tmp_path, Counting(20), number=6, identity="on-3", keep=2, every_steps=1)  # which goes on from step 16
    assert {record.step for record in CheckpointStore(tmp_path).records()} == {19, 20}


def test_the_commit_before_the_newest(tmp_path: Path) -> None:
    attempt(tmp_path, Counting(8))
    with capture_logs() as said:
        _, line = attempt(tmp_path, Counting(9), {3: "stop"}, number=2, resume_before=8)
    assert line.committed_steps == [4, 6]
    [told] = [event for event in said if event["event"] == "checkpoint_passed_over"]
    assert (told["step"], told["log_level"]) == (8, "warning")
    _, line = attempt(tmp_path, Counting(9), number=3, resume_before=8)
    assert line.committed_steps == [6, 8, 9]
    records = CheckpointStore(tmp_path).records()
    assert [(record.step, record.attempt) for record in records] == [(9, "a3"), (8, "a3"), (8, "a1")], "the newer commit counts"


def test_the_newest_where_nothing_else_verifies(tmp_path: Path) -> None:
    attempt(tmp_path, Counting(8))
    [older] = tmp_path.glob("step-4.*/steps.txt")
    older.write_text("")
    with capture_logs() as said:
        _, line = attempt(tmp_path, Counting(8), number=2, resume_before=8)
    assert line.committed_steps == [8]
    assert "checkpoint_passed_over" not in {event["event"] for event in said}


def test_damage_on_the_way(tmp_path: Path) -> None:
    attempt(tmp_path, Counting(8))
    [newest] = tmp_path.glob("step-8.*/steps.txt")
    newest.write_text("[1]")
    outcome, line = attempt(tmp_path, Counting(8), number=2)
    assert outcome.code is ExitCode.DONE
    assert line.committed_steps == [4, 8]
    for file in tmp_path.glob("step-*/steps.txt"):
        file.write_text("")
    with pytest.raises(NoCheckpointError, match="damaged and set aside"):
        attempt(tmp_path, Counting(8), number=3)
