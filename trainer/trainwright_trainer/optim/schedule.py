"""Learning rate and length of a run, counted in samples, so that they mean the same at any batch."""

from __future__ import annotations

import math

from trainwright_trainer.contract.training import Duration, LearningRate


def target_samples(duration: Duration, dataset_size: int, global_batch: int) -> int:
    """Samples after which training is done; the last optimizer step is the first one that reaches it."""
    if duration.epochs is not None:
        return max(1, math.ceil(duration.epochs * dataset_size))
    return (duration.steps or 0) * global_batch


def learning_rate(rate: LearningRate, samples: int, target: int) -> float:
    """Rate of the step that ends at position ``samples`` of ``target``.

    It rises linearly to the peak over ``warmup_samples``. Then it stays (constant), falls on a line (linear) or on half a
    cosine (cosine; Loshchilov and Hutter 2017, SGDR, without restarts) to ``final_fraction`` of the peak at ``target``.
    """
    if rate.warmup_samples and samples <= rate.warmup_samples:
        return rate.peak * samples / rate.warmup_samples
    if rate.schedule == "constant":
        return rate.peak
    rest = target - rate.warmup_samples
    passed = min(1.0, (samples - rate.warmup_samples) / rest) if rest > 0 else 1.0
    left = 1 - passed if rate.schedule == "linear" else (1 + math.cos(math.pi * passed)) / 2
    return rate.peak * (rate.final_fraction + (1 - rate.final_fraction) * left)
