"""Batch arithmetic: what one optimizer step sees, and what that does to the learning rate."""

from __future__ import annotations

from math import ceil, sqrt

from trainwright.plan.model import BatchPlan, DurationPlan, LearningRatePlan
from trainwright.run import Run
from trainwright_trainer.contract.data import Digits


def plan_batch(run: Run, ranks: int) -> BatchPlan | None:
    """Effective batch = micro x accumulation x ranks."""
    if run.batch is None:
        return None
    micro, accumulation = run.batch.micro, run.batch.accumulation
    return BatchPlan(micro=micro, accumulation=accumulation, ranks=ranks, effective=micro * accumulation * ranks)


def plan_learning_rate(run: Run, batch: BatchPlan | None) -> LearningRatePlan | None:
    """Scale the base rate to the effective batch.

    Linear: lr = base x effective / base batch (Goyal et al. 2017, arXiv:1706.02677, for SGD). Square root: lr = base x
    sqrt(effective / base batch), the rule that fits adaptive optimizers (Malladi et al. 2022, arXiv:2205.10287).
    """
    asked = run.learning_rate
    if asked is None or batch is None:
        return None
    ratio = batch.effective / asked.base_batch if asked.base_batch else 1.0
    factor = {"none": 1.0, "linear": ratio, "square_root": sqrt(ratio)}[asked.scaling]
    reason = "no scaling rule"
    if asked.scaling != "none":
        rule = asked.scaling.replace("_", " ")
        reason = f"{rule} scaling: base {asked.base:.1e} at batch {asked.base_batch}, x {factor:.4g} at {batch.effective}"
    return LearningRatePlan(
        base=asked.base,
        peak=asked.base * factor,
        schedule=run.trainer.schedule if run.trainer else None,
        warmup_steps=asked.warmup_steps,
        warmup_samples=asked.warmup_steps * batch.effective,
        reason=reason,
    )


def plan_duration(run: Run, batch: BatchPlan | None) -> DurationPlan | None:
    """Optimizer steps, where the size of the data is known beforehand."""
    work = run.trainer
    if work is None or batch is None:
        return None
    if work.steps is not None:
        return DurationPlan(epochs=None, steps=work.steps, samples=work.steps * batch.effective, reason="as asked")
    if not isinstance(work.data, Digits):
        return DurationPlan(
            epochs=work.epochs, steps=None, samples=None, reason="the number of steps depends on the data in the pod"
        )
    per_epoch = work.data.train_samples
    samples = ceil((work.epochs or 0) * per_epoch)
    steps = ceil(samples / batch.effective)
    return DurationPlan(epochs=work.epochs, steps=steps, samples=samples, reason=f"{per_epoch:,} training samples an epoch")
