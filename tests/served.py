"""Which metrics of the table the pods of a run write: what dashboards and alerts may ask for.

A count of what goes wrong (failed saves, broken images) is written from the start, at nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from trainwright_trainer.contract.boosting import ERRORS, LOSSES, Boosting, MetricName, Objective
from trainwright_trainer.contract.data import ImageFolder
from trainwright_trainer.contract.limits import LOG_INTERVAL, limits
from trainwright_trainer.contract.metrics import METRICS
from trainwright_trainer.contract.spec import ElasticRendezvous, Preflight, RunSpec, Script, TFConfigRendezvous, World
from trainwright_trainer.contract.training import Training

ATTEMPTS = "trainwright_attempt"
"""Counted by the ledger beside the checkpoints; always 1 without a ledger."""

SUPERVISED = ("trainwright_up", "trainwright_ranks_alive", "trainwright_peers_connected", ATTEMPTS)
"""What the supervisor knows by itself; the rest comes from our trainer in the ranks."""

LEFT_OUT_IMAGES = "trainwright_left_out_images"
"""Counted where images are files."""

STAND_STILL = "trainwright_checkpoint_stall_seconds"
"""TensorFlow and XGBoost stand still for all of a save, which has a metric of its own (their ``learner.py``)."""

UNKNOWN_TO_BOOSTING = (
    "trainwright_loss", "trainwright_learning_rate", "trainwright_gradient_norm", LEFT_OUT_IMAGES, STAND_STILL,
)
"""A round has no loss of its own; trees are scored on the held-out rows, or on all (boosting/learner.py)."""

OF_PREFLIGHT = tuple(name for name in METRICS if name.startswith("trainwright_preflight_"))

UNKNOWN_TO_BOOSTING_ON_GPUS = (
    "trainwright_preflight_tflops", "trainwright_preflight_share_of_median", "trainwright_preflight_memory_bytes_per_second",
)
"""XGBoost has no arithmetic of its own to try a GPU with (boosting/program.py)."""

KNOWN_BESIDE_OTHERS = (
    "trainwright_preflight_share_of_median", "trainwright_preflight_clock_skew_seconds",
    "trainwright_preflight_bus_bytes_per_second",
)
"""What a single rank has nothing to compare with."""

STORAGE_SECONDS = "trainwright_preflight_storage_seconds"
"""Measured on volumes."""

UNHEALTHY_NODE = "trainwright_unhealthy_node"
"""Written once a pod has ended with 201."""

LIMITS = frozenset((*(name for name in METRICS if "_limit" in name), LOG_INTERVAL))
"""What follows from the specification alone."""

PACE = (
    "trainwright_slowest_rank", "trainwright_slowest_rank_ratio", "trainwright_slow_ranks",
    "trainwright_communication_seconds", "trainwright_data_wait_seconds",
)
"""Worked out by node 0's supervisor from what the ranks of all pods tell (observe/metrics.py)."""


_SCORED_BY: dict[Objective, MetricName] = {
    "reg:squarederror": "rmse", "reg:absoluteerror": "mae", "reg:logistic": "rmse", "count:poisson": "poisson-nloglik",
    "binary:logistic": "logloss", "multi:softprob": "mlogloss", "multi:softmax": "mlogloss",
}
"""XGBoost's defaults (``DefaultEvalMetric`` in src/objective)."""


def served_by(spec: RunSpec) -> frozenset[str]:
    """Names in the table that the run's pods together write once it is under way."""
    if isinstance(spec.work, Script):
        return frozenset((*SUPERVISED, *limits(spec))) - (frozenset() if spec.state_directory else {ATTEMPTS})
    unknown = _unknown_to_boosting(spec.work, spec.world) if isinstance(spec.work, Boosting) else _unknown_to_training(spec.work)
    unheard = () if _hears_all_ranks(spec.world) else PACE
    return frozenset(METRICS).difference(unknown, _not_tried(spec), unheard, LIMITS - limits(spec).keys(), {UNHEALTHY_NODE})


def _unknown_to_training(work: Training) -> Iterator[str]:
    if work.engine == "tensorflow":
        yield STAND_STILL
    if not isinstance(work.data, ImageFolder):
        yield LEFT_OUT_IMAGES


def _unknown_to_boosting(work: Boosting, world: World) -> Iterator[str]:
    yield from UNKNOWN_TO_BOOSTING
    scores = tuple(work.evaluation_metrics) or (_SCORED_BY[work.booster.objective],)
    if not LOSSES.intersection(scores):
        yield "trainwright_evaluation_loss"
    if not ERRORS.intersection(scores):
        yield "trainwright_evaluation_accuracy"
    if world.device == "cuda":
        yield from PACE  # who waits for a GPU or for NCCL looks like who computes


def _not_tried(spec: RunSpec) -> Iterator[str]:
    """What no preflight measures (rank/preflight/checks.py)."""
    settings = spec.lifecycle.preflight or Preflight()
    if settings.when == "never" or (settings.when == "on-gpus" and spec.world.device != "cuda"):
        yield from OF_PREFLIGHT
    if isinstance(spec.work, Boosting) and spec.world.device == "cuda":
        yield from UNKNOWN_TO_BOOSTING_ON_GPUS
    if _most_ranks(spec.world) == 1:
        yield from KNOWN_BESIDE_OTHERS
    if "://" in (spec.state_directory or "://"):
        yield STORAGE_SECONDS


def _hears_all_ranks(world: World) -> bool:
    """Whether one supervisor does: nothing connects those of elastic runs, or of a TFJob's pods."""
    match world.rendezvous:
        case ElasticRendezvous(max_nodes=most):
            return most == 1
        case TFConfigRendezvous():
            return world.control_port is not None or world.nodes == 1
        case _:
            return True


def _most_ranks(world: World) -> int:
    elastic = world.rendezvous if isinstance(world.rendezvous, ElasticRendezvous) else None
    return max(world.nodes, elastic.max_nodes if elastic else 0) * world.processes_per_node
