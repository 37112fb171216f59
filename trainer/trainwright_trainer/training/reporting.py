"""What a run says of itself: how fast it trains, what it waits for, and what an evaluation found."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from trainwright_trainer.contract.metrics import StepSplit
from trainwright_trainer.data.dataset import Unreadable
from trainwright_trainer.observe.log import get_log
from trainwright_trainer.observe.sinks import Sinks
from trainwright_trainer.rank.group import Group
from trainwright_trainer.rank.link import Link
from trainwright_trainer.rank.place import Place
from trainwright_trainer.training.learner import Position

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Speed:
    samples_per_second: float
    """Of the whole run."""
    split: StepSplit


class Meter:
    """Counts steps, samples and their time until it is read."""

    def __init__(self) -> None:
        self._forget()
        self._in_step = False

    @contextmanager
    def step(self, samples: int) -> Iterator[None]:
        """Time one step of so many samples."""
        started = time.perf_counter()
        self._in_step = True
        yield
        self._in_step = False
        self._seconds += time.perf_counter() - started
        self._steps += 1
        self._samples += samples

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Time a wait for other ranks; outside a step it does not count."""
        started = time.perf_counter()
        yield
        if self._in_step:
            self._waited += time.perf_counter() - started

    def waited_for_data(self, seconds: float) -> None:
        """Take note of a wait within a step that is nobody else's fault."""
        self._data += seconds

    @contextmanager
    def computing(self, clock: Callable[[], float]) -> Iterator[None]:
        """Time a call that computes and waits for other ranks in turns: a wait is what is not this rank's own work.

        ``clock`` has the seconds of this rank's own work.
        """
        started, used = time.perf_counter(), clock()
        yield
        self._waited += max(0.0, time.perf_counter() - started - (clock() - used))

    def held_up(self, seconds: float) -> None:
        """Take note of time between two steps in which other ranks waited for this one: it is its own."""
        self._seconds += seconds

    def read(self, waited: float = 0.0) -> Speed:
        """Means since the last reading, with the seconds that were waited where this meter does not see it.

        Raises ``ZeroDivisionError`` if there was no step.
        """
        seconds, steps = self._seconds, self._steps
        waits = min(seconds, self._waited + waited)
        each = StepSplit(step_seconds=seconds / steps, waited_seconds=waits / steps, data_seconds=self._data / steps)
        speed = Speed(self._samples / max(seconds, 1e-9), each)
        self._forget()
        return speed

    def _forget(self) -> None:
        self._seconds, self._waited, self._data, self._steps, self._samples = 0.0, 0.0, 0.0, 0, 0


class WatchedGroup:
    """A :class:`Group` for the main thread. Before each collective this rank says that it has come so far.

    In a run that hangs, the rank that has said it least often is the one that the others wait for.
    """

    def __init__(self, group: Group, link: Link, meter: Meter) -> None:
        self._group, self._link, self._meter = group, link, meter

    def reduce_sums(self, values: Sequence[float]) -> list[float]:
        with self._together():
            return self._group.reduce_sums(values)

    def broadcast(self, value: T) -> T:
        with self._together():
            return self._group.broadcast(value)

    def gather(self, value: T) -> list[T]:
        with self._together():
            return self._group.gather(value)

    @contextmanager
    def _together(self) -> Iterator[None]:
        self._link.mark()
        with self._meter.waiting():
            yield
        self._link.mark()


@dataclass(frozen=True, slots=True)
class Score:
    """Means over the items (images or tokens) that were evaluated."""

    loss: float
    accuracy: float
    items: int


class Reporter:
    """Every rank may call every method; who speaks is decided here."""

    def __init__(self, place: Place, link: Link, sinks: Sinks | None = None, unreadable: Unreadable | None = None) -> None:
        self._place, self._link, self._log = place, link, get_log()
        self._sinks = sinks or Sinks({}, {})
        self._unreadable, self._left_out, self._without_targets = unreadable, 0, 0

    def started(self, at: Position, target_samples: int, global_batch: int) -> None:
        self._event(
            "run_started", step=at.step, samples=at.samples, target_samples=target_samples, global_batch=global_batch,
            world_size=self._place.world_size,
        )
        self._sinks.begin(at.step)
        self.saves_failed(0)  # a count that begins at nothing shows that there is one
        if self._unreadable is not None:
            self._link.measured({"trainwright_left_out_images": 0})

    def step(self, at: Position, epoch: float, loss: float, gradient_norm: float, rate: float, speed: Speed) -> None:
        self._event(
            "step", step=at.step, samples=at.samples, epoch=round(epoch, 3), loss=round(loss, 6), lr=rate,
            grad_norm=round(gradient_norm, 6), samples_per_second=round(speed.samples_per_second, 1),
        )
        values = {
            "trainwright_samples": at.samples,
            "trainwright_loss": loss,
            "trainwright_learning_rate": rate,
            "trainwright_gradient_norm": gradient_norm,
            "trainwright_samples_per_second": speed.samples_per_second,
            "trainwright_step_seconds": speed.split.step_seconds,
        }
        self._measured({"trainwright_step": at.step, **values, "trainwright_last_step_timestamp_seconds": time.time()})
        self._sinks.write(at.step, values)
        self._count_left_out()
        self._link.pace(at.step, speed.split)

    def nothing_to_predict(self, at: Position) -> None:
        """No sample of this step has a target, on any rank: its loss is 0, and only momentum and decay move weights."""
        self._without_targets += 1
        if self._place.leads:
            self._log.warning("step_without_targets", step=at.step, samples=at.samples, so_far=self._without_targets)

    def left_out(self, at: Position, reasons: Mapping[int, str]) -> None:
        """Held-out samples that this rank could not read, and did not know of before."""
        for sample, reason in reasons.items():
            self._log.warning("held_out_sample_left_out", step=at.step, sample=sample, reason=reason)

    def scored(self, at: Position, loss: float, correct: float, items: int) -> None:
        """Sums over all ranks. There is no score where nothing was to be predicted."""
        if items:
            self.evaluated(at, Score(loss / items, correct / items, items))
        elif self._place.leads:
            reason = "no held-out sample has a target to predict; look at the data's held-out split"
            self._log.warning("nothing_evaluated", step=at.step, reason=reason)

    def evaluated(self, at: Position, score: Score) -> None:
        self._event("evaluated", step=at.step, loss=round(score.loss, 6), accuracy=round(score.accuracy, 6), items=score.items)
        values = {"trainwright_evaluation_loss": score.loss, "trainwright_evaluation_accuracy": score.accuracy}
        self._measured(values)
        self._sinks.write(at.step, values)
        self._count_left_out()

    def committed(self) -> None:
        self._measured({"trainwright_last_commit_timestamp_seconds": time.time()})

    def stalled(self, seconds: float) -> None:
        self._measured({"trainwright_checkpoint_stall_seconds": seconds})

    def saves_failed(self, count: int) -> None:
        """So many of this attempt, by now. All ranks know, and one says it: a pod adds up what its ranks count."""
        if self._place.leads:
            self._link.measured({"trainwright_checkpoint_failures": count})

    def ended(self, event: str, at: Position, committed_step: int | None) -> None:
        self._event(event, step=at.step, samples=at.samples, committed_step=committed_step)
        self._sinks.close()

    def _count_left_out(self) -> None:
        """Every rank reads images of its own, and reports those that it left out."""
        if self._unreadable is not None and self._unreadable.count != self._left_out:
            self._left_out = self._unreadable.count
            self._link.measured({"trainwright_left_out_images": self._left_out})

    def _event(self, event: str, **fields: object) -> None:
        if self._place.leads:
            self._log.info(event, **fields)

    def _measured(self, values: dict[str, float]) -> None:
        if self._place.leads_node:
            self._link.measured(values)
