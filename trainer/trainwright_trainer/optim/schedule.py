"""Learning rate of a run, counted in samples, so that it means the same at any batch."""

from __future__ import annotations

import math

from trainwright_trainer.contract.training import LearningRate

DECAY_FRACTION = 0.2
"""Of a ``wsd`` run that does not say: longer decays gain little (Hägele et al. 2024, section 4)."""


def learning_rate(rate: LearningRate, samples: int, target: int, *, batch: int | None = None, base: int | None = None) -> float:
    """Rate of the step that ends at position ``samples`` of ``target``.

    It rises linearly to the peak over ``warmup_samples``. What follows is

    - constant: the peak;
    - linear: a line down to ``final_fraction`` of the peak at ``target``;
    - cosine: half a cosine down to it (Loshchilov and Hutter 2017, arXiv:1608.03983, SGDR, without restarts);
    - wsd: the peak, and over the last ``decay_fraction`` of ``target`` down to it along 1 - sqrt of the share of the decay that
      has passed (warm up, stay, decay: Hu et al. 2024, arXiv:2404.06395; this decay: Hägele et al. 2024, arXiv:2405.18392). A
      resume with a later ``target`` goes on from the peak, so the length of such a run need not be known beforehand.

    All of it is multiplied by :func:`batch_factor`.

    Args:
        rate: The run's.
        samples: Position after the step.
        target: Samples of the whole run.
        batch: Samples of this step, where the run's batch moves (``batch.keep: micro``).
        base: The batch that ``peak`` is for: the run's ``batch.effective``.
    """
    peak = rate.peak if batch is None or base is None else rate.peak * batch_factor(rate, batch, base)
    if rate.warmup_samples and samples <= rate.warmup_samples:
        return peak * samples / rate.warmup_samples
    return peak * (1 - (1 - rate.final_fraction) * _fallen(rate, samples, target))


def batch_factor(rate: LearningRate, batch: int, base: int) -> float:
    """By how much the rate at ``batch`` differs from that at ``base`` under the run's ``scaling``.

    linear: ``batch / base``, for SGD (Goyal et al. 2017, arXiv:1706.02677, section 2.1). square_root: ``sqrt(batch / base)``,
    which keeps the variance of a step (Krizhevsky 2014, arXiv:1404.5997, section 5) and is the rule for Adam (Malladi et al.
    2022, arXiv:2205.10287).
    """
    match rate.scaling:
        case "linear":
            return batch / base
        case "square_root":
            return math.sqrt(batch / base)
        case _:
            return 1.0


def _fallen(rate: LearningRate, samples: int, target: int) -> float:
    """Share of the way from the peak to the last value: 0 at the peak, 1 at the end."""
    if rate.schedule == "constant":
        return 0.0
    start = float(rate.warmup_samples)
    if rate.schedule == "wsd":
        start = max(start, target * (1 - (rate.decay_fraction or DECAY_FRACTION)))
    rest = target - start
    passed = min(1.0, max(0.0, (samples - start) / rest)) if rest > 0 else 1.0
    match rate.schedule:
        case "linear":
            return passed
        case "cosine":
            return (1 - math.cos(math.pi * passed)) / 2
        case _:
            return math.sqrt(passed)
