"""Boosting, a round at a time: every round is a place to stop, save and go on, and has something to log and to measure."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import xgboost

from trainwright_trainer.boosting.group import Workers, lost_workers
from trainwright_trainer.boosting.report import BoostingReport, OwnClock
from trainwright_trainer.boosting.table import Rows
from trainwright_trainer.checkpoint import Snapshot, open_volume
from trainwright_trainer.contract.boosting import Boosting
from trainwright_trainer.contract.failures import DataError, DivergedError, InvalidRunError, TopologyMismatchError
from trainwright_trainer.rank.link import Link
from trainwright_trainer.rank.place import Place
from trainwright_trainer.training.learner import Metadata, Position, Restored, StateSnapshot
from trainwright_trainer.training.reporting import Meter

MODEL_FILE = "model.ubj"
"""In a checkpoint, and beside the checkpoints when the run is finished: XGBoost's own format (Universal Binary JSON)."""
_BEST_ROUND, _BEST_SCORE, _EVALUATED_ROUND = "best_round", "best_score", "evaluated_round"
_HIGHER_IS_BETTER = ("auc", "aucpr")


class BoostingLearner:
    """The trees, whole on every worker, and this worker's rows.

    Args:
        work: What to learn.
        device: ``cpu`` or ``cuda``.
        threads: That XGBoost may use; None lets it use every core that it finds. The last bits of a model depend on it.
        total_rows: Of all workers.
        train: This worker's rows.
        held_out: This worker's rows to evaluate on; the metrics are of the training rows without them.
    """

    saves_in_background = False
    evaluates_before_saving = True
    """Whether to stop early follows from the evaluation, and goes into the checkpoint."""

    def __init__(
        self, work: Boosting, device: str, threads: int | None, place: Place, link: Link, group: Workers, *, total_rows: int,
        train: xgboost.DMatrix, held_out: xgboost.DMatrix | None,
    ) -> None:
        self._work, self._device, self._threads, self._group = work, device, threads, group
        self._rows, self._train = total_rows, train
        self._evaluated = train if held_out is None else held_out
        self._place, self._report, self._meter, self._own_clock = place, BoostingReport(place, link), Meter(), OwnClock()
        self._halted = 0.0
        """What the clock said at the end of the last round."""
        self._round = 0
        self._best_round, self._best_score = 0, math.nan
        self._evaluated_round = 0
        self._booster = self._build(None)

    @property
    def position(self) -> Position:
        return Position(self._round, self._round * self._rows)

    @property
    def target_samples(self) -> int:
        return self._work.rounds * self._rows

    @property
    def step_samples(self) -> int:
        return self._rows

    @property
    def evaluate_every(self) -> int:
        """Rounds between two evaluations: each where training may stop early, else those that are logged."""
        return 1 if self._work.early_stopping_rounds else self._work.log_every_steps

    @property
    def done(self) -> bool:
        patience = self._work.early_stopping_rounds
        stopped = patience is not None and self._best_round > 0 and self._evaluated_round - self._best_round >= patience
        return stopped or self._round >= self._work.rounds

    def metadata(self) -> Metadata:
        best = {_BEST_ROUND: self._best_round, _BEST_SCORE: self._best_score} if self._best_round else {}
        return {"library": f"xgboost {xgboost.__version__}", _EVALUATED_ROUND: self._evaluated_round, **best}

    def snapshots(self) -> Sequence[Snapshot]:
        return [StateSnapshot(lambda: {MODEL_FILE: [self._booster.save_raw("ubj")]})]

    def initialise(self) -> None:
        """There are no trees yet."""

    def load(self, checkpoint: Restored) -> None:
        model = bytearray(checkpoint.read(MODEL_FILE))
        self._refuse_another_model(xgboost.Booster(model_file=model), checkpoint.position)
        self._booster = self._build(model)
        self._round = checkpoint.position.step
        self._best_round = int(checkpoint.metadata.get(_BEST_ROUND, 0))
        self._best_score = float(checkpoint.metadata.get(_BEST_SCORE, math.nan))
        self._evaluated_round = int(checkpoint.metadata.get(_EVALUATED_ROUND, self._round))  # older records do not say it

    def warm_up(self) -> None:
        self._halted = self._own_clock.halted
        if self._device == "cuda" and not _on_gpu(self._booster):
            build = "" if xgboost.build_info().get("USE_CUDA") else "; the XGBoost of this image is built for CPUs only"
            raise TopologyMismatchError(f"world.device is cuda, and XGBoost found no GPU in this pod{build}")

    def step(self) -> None:
        self._meter.held_up(self._own_clock.halted - self._halted)  # the others waited for it to agree on what comes next
        with self._meter.step(self._rows), lost_workers():
            if self._samples_rows_or_columns:
                self._renew_sampler()
            with self._meter.computing(self._own_clock):  # the main thread takes part in all that OpenMP computes
                self._booster.update(self._train, self._round)
        self._halted = self._own_clock.halted
        self._round += 1
        if self._is_reported:
            self._report_round()

    def stalled(self, seconds: float) -> None:
        """It stands still for all of a save, which has a metric of its own."""

    def check(self) -> None:
        """Raise :class:`LostWorkersError` if a worker was lost. A round has no loss of its own to check.

        A collective that broke may have looked like one that was done, and then the trees are wrong; the one after it does not
        (:mod:`event_loop`).
        """
        self._group.reduce_sums([0.0])

    def evaluate(self, before_batch: Callable[[], None]) -> None:
        if self._evaluated_round == self._round:
            return
        was_reported = self._is_reported
        name = "train" if self._evaluated is self._train else "evaluation"
        with lost_workers():
            scores = _parsed(self._booster.eval_set([(self._evaluated, name)], self._round - 1))
        for metric, score in scores.items():
            if not math.isfinite(score) and metric not in _HIGHER_IS_BETTER:  # those are NaN where one class is absent
                raise DivergedError(f"round {self._round} is not finite: {metric} on the {name} rows is {score:g}")
        *_, (metric, score) = scores.items()
        if math.isfinite(score) and self._improves(metric, score):
            self._best_round, self._best_score = self._round, score
        self._evaluated_round = self._round
        if self._is_reported:
            if not was_reported:  # its score makes it the last one
                self._report_round()
            self._report.evaluated(self.position, name, scores)

    def publish(self) -> None:
        if self._work.early_stopping_rounds is not None and self._best_round:
            # The names that XGBoost's own early stopping leaves in a model, and that its predictors read.
            self._booster.set_attr(best_iteration=str(self._best_round - 1), best_score=repr(self._best_score))
        open_volume(self._work.checkpoints.directory).replace(MODEL_FILE, bytes(self._booster.save_raw("ubj")))

    def close(self) -> None:
        self._group.close()

    @property
    def _is_reported(self) -> bool:
        """Whether the round is the first, the last, or one of those that are logged."""
        return self._round == 1 or self._round % self._work.log_every_steps == 0 or self.done

    def _report_round(self) -> None:
        speed = self._meter.read()
        self._report.step(self.position, speed)
        if self._device == "cpu":  # who waits for a GPU or for NCCL uses the processor as who computes does
            self._report.pace(self.position, speed.split)

    def _build(self, model: bytearray | None) -> xgboost.Booster:
        parameters: dict[str, Any] = self._work.booster.model_dump(exclude_none=True)
        parameters |= {"seed": self._work.seed, "seed_per_iteration": True, "device": self._device, "verbosity": 1}
        if self._threads is not None:
            parameters["nthread"] = self._threads
        if self._work.evaluation_metrics:
            parameters["eval_metric"] = list(self._work.evaluation_metrics)
        return xgboost.Booster(parameters, [self._train, self._evaluated], model_file=model)

    @property
    def _samples_rows_or_columns(self) -> bool:
        return self._work.booster.subsample < 1 or self._work.booster.colsample_bytree < 1

    def _renew_sampler(self) -> None:
        """Make what a round draws at random a function of seed and round alone, so that a resumed run draws the same.

        With ``seed_per_iteration`` XGBoost seeds its generator from both before each round. But the column sampler is seeded from
        that generator once, in the first round of a process, and goes on from there. It belongs to the updater
        (src/tree/updater_quantile_hist.cc), and a change of ``tree_method`` makes a new one (src/gbm/gbtree.cc, Configure).
        """
        self._booster.set_param("tree_method", "approx")
        self._booster.save_config()  # parameters take effect when the model is next looked at
        self._booster.set_param("tree_method", self._work.booster.tree_method)

    def _improves(self, metric: str, score: float) -> bool:
        if not self._best_round:
            return True
        return score > self._best_score if metric in _HIGHER_IS_BETTER else score < self._best_score

    def _refuse_another_model(self, model: xgboost.Booster, at: Position) -> None:
        found = [_objective(model), model.num_features(), model.feature_names, model.num_boosted_rounds()]
        wanted = [self._work.booster.objective, self._train.num_col(), self._train.feature_names, at.step]
        for what, theirs, ours in zip(("objective", "number of features", "features", "rounds"), found, wanted, strict=True):
            if theirs != ours:
                raise InvalidRunError(
                    f"the checkpoint holds another model: its {what} is {str(theirs)[:200]} there and {str(ours)[:200]} in this "
                    "run; an edited model needs a checkpoint directory of its own"
                )


def _objective(model: xgboost.Booster) -> str:
    return str(_config(model)["objective"]["name"])


def _on_gpu(model: xgboost.Booster) -> bool:
    return str(_config(model)["generic_param"]["device"]).startswith("cuda")


def _config(model: xgboost.Booster) -> dict[str, Any]:
    learner: dict[str, Any] = json.loads(model.save_config())["learner"]
    return learner


def _parsed(line: str) -> dict[str, float]:
    """Scores by metric, from ``[3]<tab>evaluation-logloss:0.5<tab>evaluation-auc:0.7``."""
    scores = {}
    for part in line.split("\t")[1:]:
        name, _, score = part.rpartition(":")
        scores[name.partition("-")[2]] = float(score)
    return scores


def matrix(rows: Rows, train: xgboost.DMatrix | None = None) -> xgboost.DMatrix:
    """Call on all workers together: they agree on the number of columns here. Raises :class:`DataError` for infinite features.

    Beside rows to ``train`` on, those of libsvm have the same columns. They lose what training never had: no tree splits on it,
    and XGBoost takes the widest matrix for the model's.

    Not a ``QuantileDMatrix``, which keeps bins in place of values: after a resume margins are computed again from the values.
    """
    if rows.names is None and train is not None:
        rows.features.resize((len(rows), train.num_col()))
    try:
        return xgboost.DMatrix(rows.features, label=rows.labels, feature_names=None if rows.names is None else list(rows.names))
    except xgboost.core.XGBoostError as error:
        if "inf" in str(error):
            message = "the features hold an infinite number; XGBoost takes finite ones, and empty or NaN where one is missing"
            raise DataError(message) from error
        raise
