"""A few steps of a run, for commands that measure it or prove something of it: all that decides a step stays as it is."""

from __future__ import annotations

from trainwright_trainer.contract.failures import InvalidRunError
from trainwright_trainer.contract.preflight import Preflight
from trainwright_trainer.contract.spec import RunSpec
from trainwright_trainer.contract.training import Duration, Evaluation, Training

_WITNESSED = ("ddp", "fsdp2", "deepspeed")
"""Engines whose loop tells a witness of its steps, and that one pod can play."""


def witnessed_training(spec: RunSpec, command: str) -> Training:
    """The work of a run whose steps can be told. Raises :class:`InvalidRunError` for any other, in the name of ``command``."""
    work = spec.work
    if not isinstance(work, Training):
        raise InvalidRunError(f"{command} looks into the steps of work trainer, and this run's work is {work.kind}")
    if work.engine not in _WITNESSED:
        raise InvalidRunError(
            f"{command} starts ranks of {', '.join(_WITNESSED[:-1])} and {_WITNESSED[-1]} on this machine, and this run's engine "
            f"is {work.engine}"
        )
    return work


def short_run(spec: RunSpec, training: Training, steps: int, directory: str, every_steps: int | None = None) -> RunSpec:
    """The run with another length and checkpoints of its own, a single batch of evaluation, and no sinks or preflight.

    Args:
        training: Its work.
        directory: For its checkpoints, ledger and marker.
        every_steps: Between two saves; None saves at the end only.
    """
    checkpoints = training.checkpoints.model_copy(
        update={"directory": directory, "every_steps": every_steps, "every_seconds": None, "resume": "auto"}
    )
    work = training.model_copy(update={
        "duration": Duration(steps=steps), "checkpoints": checkpoints, "evaluation": Evaluation(max_batches=1), "metrics": None,
    })
    lifecycle = spec.lifecycle.model_copy(update={"preflight": Preflight(when="never")})
    return spec.model_copy(update={"work": work, "lifecycle": lifecycle})
