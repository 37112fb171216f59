"""What a boosting run says of itself, as log lines (the first worker) and as metrics. Needs no XGBoost."""

from __future__ import annotations

import time
from collections.abc import Mapping

from trainwright_trainer.observe.log import get_log
from trainwright_trainer.rank.link import Link
from trainwright_trainer.rank.place import Place
from trainwright_trainer.training.learner import Position
from trainwright_trainer.training.reporting import Speed

_LOSSES = ("rmse", "mae", "logloss", "mlogloss", "poisson-nloglik")
_ERRORS = ("error", "merror")
"""Shares of rows predicted wrong."""


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
        self._link.pace(at.step, speed.split)

    def evaluated(self, at: Position, rows: str, scores: Mapping[str, float]) -> None:
        """``rows`` are those that the scores are of, ``train`` or ``evaluation``."""
        if self._place.leads:
            rounded = {metric.replace("-", "_"): round(score, 6) for metric, score in scores.items()}
            self._log.info("evaluated", step=at.step, rows=rows, **rounded)
        losses = [score for metric, score in scores.items() if metric in _LOSSES]
        errors = [score for metric, score in scores.items() if metric in _ERRORS]
        if losses:
            self._measured({"trainwright_evaluation_loss": losses[0]})
        if errors:
            self._measured({"trainwright_evaluation_accuracy": 1 - errors[0]})

    def _measured(self, values: dict[str, float]) -> None:
        if self._place.leads_node:
            self._link.measured(values)
