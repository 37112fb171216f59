"""What a boosting run says of itself, as log lines (the first worker) and as metrics, and the clock of a worker's own work.

Needs no XGBoost.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from trainwright_trainer.contract.boosting import ERRORS, LOSSES
from trainwright_trainer.contract.metrics import StepSplit
from trainwright_trainer.observe.log import get_log
from trainwright_trainer.rank.link import Link
from trainwright_trainer.rank.place import Place
from trainwright_trainer.training.learner import Position
from trainwright_trainer.training.reporting import Speed

_TICK_SECONDS = 0.01


class OwnClock:
    """Seconds of a worker's own work, for the thread that trains: it has computed, or its process was not let run.

    XGBoost computes and waits for the others inside one call, and says nothing of either. On a CPU a thread that waits there
    uses no processor. Neither does a process that is stopped, or whose cgroup has used up its share; but then no other thread
    runs either, and one that ticks shows it by ticking late.
    """

    def __init__(self) -> None:
        self._ticked = 0.0, time.monotonic()
        """How late all ticks were together, and when the last one came."""
        threading.Thread(target=self._tick, name="own-clock", daemon=True).start()

    def __call__(self) -> float:
        """Only differences mean something."""
        return time.thread_time() + self.halted

    @property
    def halted(self) -> float:
        """Seconds in which the process was not let run."""
        late, ticked = self._ticked
        return late + _lateness(time.monotonic() - ticked)

    def _tick(self) -> None:
        while True:
            time.sleep(_TICK_SECONDS)
            (late, before), now = self._ticked, time.monotonic()
            self._ticked = late + _lateness(now - before), now


def _lateness(seconds: float) -> float:
    """Of a tick that came so long after the one before it. A tick's length more is the operating system's."""
    late = seconds - _TICK_SECONDS
    return late if late > _TICK_SECONDS else 0.0


class BoostingReport:
    """Every worker may call every method; who speaks is decided here. A sample is a row, once in each round."""

    def __init__(self, place: Place, link: Link) -> None:
        self._place, self._link, self._log = place, link, get_log()

    def step(self, at: Position, speed: Speed) -> None:
        if self._place.leads:
            self._log.info("step", step=at.step, samples=at.samples, samples_per_second=round(speed.samples_per_second, 1))
        self._measured({
            "trainwright_step": at.step,
            "trainwright_samples": at.samples,
            "trainwright_samples_per_second": speed.samples_per_second,
            "trainwright_step_seconds": speed.split.step_seconds,
            "trainwright_last_step_timestamp_seconds": time.time(),
        })

    def pace(self, at: Position, split: StepSplit) -> None:
        """What a round's time goes into, where it can be told."""
        self._link.pace(at.step, split)

    def evaluated(self, at: Position, rows: str, scores: Mapping[str, float]) -> None:
        """``rows`` are those that the scores are of, ``train`` or ``evaluation``."""
        if self._place.leads:
            rounded = {metric.replace("-", "_"): round(score, 6) for metric, score in scores.items()}
            self._log.info("evaluated", step=at.step, rows=rows, **rounded)
        losses = [score for metric, score in scores.items() if metric in LOSSES]
        errors = [score for metric, score in scores.items() if metric in ERRORS]
        if losses:
            self._measured({"trainwright_evaluation_loss": losses[0]})
        if errors:
            self._measured({"trainwright_evaluation_accuracy": 1 - errors[0]})

    def _measured(self, values: dict[str, float]) -> None:
        if self._place.leads_node:
            self._link.measured(values)
