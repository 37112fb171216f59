"""Reporter: what a run says of itself, as log lines and to its sinks (rank 0), and as metrics (one rank of each pod)."""

from __future__ import annotations

import time

from trainwright_trainer.meter import Speed
from trainwright_trainer.observe.log import get_log
from trainwright_trainer.observe.sinks import Sinks
from trainwright_trainer.position import Position
from trainwright_trainer.rank.link import Link
from trainwright_trainer.rank.place import Place
from trainwright_trainer.score import Score


class Reporter:
    """Every rank may call every method; who speaks is decided here."""

    def __init__(self, place: Place, link: Link, sinks: Sinks | None = None) -> None:
        self._place, self._link, self._log = place, link, get_log()
        self._sinks = sinks or Sinks({}, {})

    def started(self, at: Position, target_samples: int, global_batch: int) -> None:
        self._event(
            "run_started", step=at.step, samples=at.samples, target_samples=target_samples, global_batch=global_batch,
            world_size=self._place.world_size,
        )
        self._sinks.begin(at.step)

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
            "trainwright_step_seconds": speed.step_seconds,
        }
        self._measured({"trainwright_step": at.step, **values, "trainwright_last_step_timestamp_seconds": time.time()})
        self._sinks.write(at.step, values)
        self._link.pace(at.step, speed.own_seconds)

    def evaluated(self, at: Position, score: Score) -> None:
        self._event("evaluated", step=at.step, loss=round(score.loss, 6), accuracy=round(score.accuracy, 6), items=score.items)
        values = {"trainwright_evaluation_loss": score.loss, "trainwright_evaluation_accuracy": score.accuracy}
        self._measured(values)
        self._sinks.write(at.step, values)

    def committed(self) -> None:
        self._measured({"trainwright_last_commit_timestamp_seconds": time.time()})

    def stalled(self, seconds: float) -> None:
        self._measured({"trainwright_checkpoint_stall_seconds": seconds})

    def save_failed(self) -> None:
        self._measured({"trainwright_checkpoint_failures": 1})

    def ended(self, event: str, at: Position, committed_step: int | None) -> None:
        self._event(event, step=at.step, samples=at.samples, committed_step=committed_step)
        self._sinks.close()

    def _event(self, event: str, **fields: object) -> None:
        if self._place.leads:
            self._log.info(event, **fields)

    def _measured(self, values: dict[str, float]) -> None:
        if self._place.leads_node:
            self._link.measured(values)
