"""Which metrics of the trainer's table a run serves: by its trainer's version, and by who does its work."""

from __future__ import annotations

from trainwright.plan import Resolution
from trainwright_trainer.contract.boosting import Boosting
from trainwright_trainer.contract.metrics import METRICS
from trainwright_trainer.contract.training import Training

ATTEMPTS = "trainwright_attempt"
"""By the ledger beside the checkpoints: 1 for ever where nobody keeps one."""

SUPERVISED = ("trainwright_up", "trainwright_ranks_alive", "trainwright_peers_connected", ATTEMPTS)
"""What the supervisor knows by itself; the rest comes from our trainer in the ranks."""

UNKNOWN_TO_REPLICATED = ("trainwright_checkpoint_stall_seconds",)
"""TensorFlow and XGBoost stand still for all of a save, which has a metric of its own (training/replicated_loop.py)."""

UNKNOWN_TO_BOOSTING = ("trainwright_loss", "trainwright_learning_rate", "trainwright_gradient_norm", *UNKNOWN_TO_REPLICATED)
"""A round has no loss of its own; trees are scored on the held-out rows, or on all (boosting/report.py)."""

UNKNOWN_TO_BOOSTING_ON_GPUS = (
    "trainwright_preflight_tflops", "trainwright_preflight_share_of_median", "trainwright_preflight_memory_bytes_per_second",
)
"""XGBoost has no arithmetic of its own to try a GPU with (boosting/program.py)."""


def served_metrics(resolution: Resolution) -> frozenset[str]:
    """Names of what the pods serve, once the run is under way."""
    spec, version = resolution.spec, resolution.run.trainer_version
    kept = spec is not None and spec.state_directory is not None
    return frozenset(
        name for name in _reported(resolution) if METRICS[name].served_by(version) and (kept or name != ATTEMPTS)
    )


def _reported(resolution: Resolution) -> set[str]:
    match resolution.spec.work if resolution.spec else None:
        case Boosting() if resolution.needs.gpus_per_node:
            return set(METRICS).difference(UNKNOWN_TO_BOOSTING, UNKNOWN_TO_BOOSTING_ON_GPUS)
        case Boosting():
            return set(METRICS).difference(UNKNOWN_TO_BOOSTING)
        case Training(engine="tensorflow"):
            return set(METRICS).difference(UNKNOWN_TO_REPLICATED)
        case Training():
            return set(METRICS)
        case _:
            return set(SUPERVISED)
