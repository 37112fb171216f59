"""One proof, from a specification to what holds and what does not."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from trainwright_trainer.commands.local.pod import PodFailedError
from trainwright_trainer.commands.local.world import witnessed_training
from trainwright_trainer.commands.verify_resume.comparison import (
    COMMIT,
    LOSSES,
    SAMPLES,
    STATE,
    WEIGHTS,
    Check,
    Proof,
    compare_bits,
    compare_commit,
    compare_losses,
    compare_samples,
    compare_weights,
    failed_checks,
    parameter_names,
)
from trainwright_trainer.commands.verify_resume.trial import Killed, ObservedAttempt, Trial, draw_moments
from trainwright_trainer.contract.failures import InvalidRunError
from trainwright_trainer.contract.model import Bert, Llama, ResNet, ViT
from trainwright_trainer.contract.spec_file import Specification
from trainwright_trainer.contract.training import Training
from trainwright_trainer.data.batch import divisors, refit

LEAST_STEPS = 6
"""A first commit, some steps until the kill, and some to compare after it."""
COMMITS = 3
"""In the run: after a third of the steps, rounded up, after twice as many, and at the end."""
TOLERANCES = {"fp32": 1e-3, "bf16": 2e-2, "fp16": 2e-2}
"""Relative, for losses whose sums were taken in another order: rounding, which the optimizer amplifies over steps."""
WEIGHT_TOLERANCES = {"fp32": 0.02, "bf16": 0.1, "fp16": 0.1}
"""The same for weights, as a share of their way. Other micro batches were seen to cost 0.0001 in fp32 and 0.02 in bf16, and an
optimizer that lost its state at least 0.19."""
DROPS = "the model's dropout is drawn by each rank"
STATISTICS = "the model normalises by the statistics of a micro batch, and that is another one there"


@dataclass(frozen=True, slots=True)
class Request:
    """What to prove."""

    specification: Specification
    steps: int = 12
    kill_at: int | None = None
    """Step in which the ranks are killed; default: drawn by the seed."""
    seed: int = 0
    processes: int | None = None
    """Default: ranks of the run."""
    resume_processes: int | None = None
    """The other size; default: half of the ranks, or two for one."""
    tolerance: float | None = None
    """For losses; default: by precision."""
    weight_tolerance: float | None = None
    """Default: by precision."""


def verify_resume(request: Request) -> Proof:
    """Run it uninterrupted, kill it, resume it at its own size and at another one, and compare.

    Raises:
        InvalidRunError: This cannot be proven of this run as asked. The message says what to change.
        PodFailedError: The run fails without any kill.
    """
    spec = request.specification.spec
    training = witnessed_training(spec, "verify-resume")
    every = _every(request)
    processes = request.processes or spec.world.size
    samples = training.batch.samples(spec.world.replicas)
    other = request.resume_processes or _other_size(samples, processes)
    # Before anything is started: whether both sizes can share a step, and in which portions.
    one, another = (refit(samples, size, training.batch.micro) for size in (processes, other))
    reason = incomparable(training, same_micro=one.micro == another.micro)
    with tempfile.TemporaryDirectory(prefix="trainwright-verify-") as folder:
        trial = Trial(request.specification, training, Path(folder), request.steps, every)
        whole = trial.uninterrupted(processes)
        killed = trial.killed(processes, draw_moments(request.seed, every, request.steps, request.kill_at))
        comparison = _Comparison(request, training, trial, whole, killed, reason)
        resumed = {size: comparison.at(size) for size in dict.fromkeys((processes, other))}
    return Proof(
        spec.identity, training.engine, request.steps, every, processes, killed.last_step, killed.committed_step, request.seed,
        resumed,
    )


class _Comparison:
    """Args: ``incomparable`` is why losses and weights at another size say nothing, if there is a reason."""

    def __init__(
        self, request: Request, training: Training, trial: Trial, whole: ObservedAttempt, killed: Killed, incomparable: str | None
    ) -> None:
        self._trial, self._whole, self._killed, self._incomparable = trial, whole, killed, incomparable
        self._training, self._steps = training, request.steps
        self._deterministic = request.specification.spec.world.device == "cpu" or training.deterministic
        precision = training.precision
        self._tolerance = TOLERANCES[precision] if request.tolerance is None else request.tolerance
        weights = request.weight_tolerance
        self._weight_tolerance = WEIGHT_TOLERANCES[precision] if weights is None else weights

    def at(self, processes: int) -> tuple[Check, ...]:
        """Resume with so many ranks, and compare."""
        try:
            resumed = self._trial.resumed(self._killed, processes)
        except PodFailedError as error:
            checks = (COMMIT, SAMPLES, LOSSES, STATE if self._is_exact(processes) else WEIGHTS)
            return failed_checks(checks, str(error), self._killed.committed_step + 1)
        return (
            compare_commit(self._killed.committed_step, resumed),
            compare_samples(self._whole, self._killed.attempt, resumed, self._steps),
            self._losses(resumed),
            self._state(resumed),
        )

    def _losses(self, resumed: ObservedAttempt) -> Check:
        if (reason := self._reason(resumed)) is not None:
            return Check(LOSSES, None, reason)
        return compare_losses(self._whole, resumed, self._steps, 0.0 if self._is_exact(resumed.processes) else self._tolerance)

    def _state(self, resumed: ObservedAttempt) -> Check:
        if self._is_exact(resumed.processes):
            return compare_bits(self._whole, resumed)
        if (reason := self._reason(resumed)) is not None:
            return Check(WEIGHTS, None, reason)
        return compare_weights(self._whole, resumed, self._parameters, self._weight_tolerance)

    def _is_exact(self, processes: int) -> bool:
        """Whether nothing may differ: the same sums, by kernels that have one result."""
        return self._deterministic and processes == self._whole.processes

    def _reason(self, resumed: ObservedAttempt) -> str | None:
        return None if resumed.processes == self._whole.processes else self._incomparable

    @cached_property
    def _parameters(self) -> frozenset[str]:
        return parameter_names(self._training)


def _every(request: Request) -> int:
    if request.steps < LEAST_STEPS:
        raise InvalidRunError(f"{request.steps} steps are too few to be killed between two commits; use at least {LEAST_STEPS}")
    every = -(-request.steps // COMMITS)
    if request.kill_at is not None and not every <= request.kill_at < request.steps:
        raise InvalidRunError(
            f"--kill-at is {request.kill_at}; the first commit is after step {every} and the last one after step "
            f"{request.steps}, so it must be {every} to {request.steps - 1}"
        )
    return every


def _other_size(samples: int, processes: int) -> int:
    """Half of the ranks, or two for one; where they cannot share a step, the nearest number that can."""
    possible = [size for size in divisors(samples) if size != processes]
    wanted = 2 if processes == 1 else processes // 2
    if not possible:
        raise InvalidRunError("a step of this run has one sample, so no other number of ranks can share it; raise batch.micro")
    return min(possible, key=lambda size: (abs(size - wanted), size))


def incomparable(training: Training, *, same_micro: bool) -> str | None:
    """Why losses and weights at another size say nothing; None where they do.

    Args:
        same_micro: Whether each forward pass has as many samples there.

    Raises:
        InvalidRunError: The model cannot be built.
    """
    drops, statistics = _features(training)
    if drops:
        return DROPS
    return STATISTICS if statistics and not same_micro else None


def _features(training: Training) -> tuple[bool, bool]:
    """Whether a model drops anything in training, and whether it keeps batch statistics."""
    model = training.model
    if isinstance(model, Llama | ResNet):
        return False, isinstance(model, ResNet)
    if isinstance(model, Bert | ViT):
        return model.dropout > 0, False
    from torch.nn.modules.batchnorm import _BatchNorm
    from torch.nn.modules.dropout import _DropoutNd

    from trainwright_trainer.model.build import build_model
    from trainwright_trainer.model.initialise import skeleton

    module = skeleton(lambda: build_model(model, training.task, training.data))
    layers = list(module.modules())
    # Attention drops inside a function: its share is in the configuration alone.
    settings: dict[str, Any] = getattr(getattr(module, "config", None), "to_dict", dict)()
    drops = any(isinstance(layer, _DropoutNd) and layer.p > 0 for layer in layers) or any(_drops(settings))
    return drops, any(isinstance(layer, _BatchNorm) for layer in layers)


def _drops(settings: Any) -> Iterator[bool]:
    """For each number of a configuration, those of its parts too, whether it is a share that is dropped."""
    if isinstance(settings, dict):
        for name, value in settings.items():
            yield "drop" in str(name) and isinstance(value, float) and value > 0
            yield from _drops(value)
    elif isinstance(settings, list | tuple):
        for each in settings:
            yield from _drops(each)
