"""Batch arithmetic: what one optimizer step sees, and what that does to the learning rate."""

from __future__ import annotations

from math import ceil, sqrt

from trainwright.handshake import Needs
from trainwright.plan.model import BatchPlan, DurationPlan, ElasticPlan, ElasticSize, LearningRatePlan
from trainwright.run import LearningRate, Run


def plan_batch(run: Run, needs: Needs) -> BatchPlan | None:
    """Effective batch = micro x accumulation x ranks."""
    if run.batch is None:
        return None
    micro, accumulation, ranks = run.batch.micro, run.batch.accumulation, needs.replicas
    return BatchPlan(micro=micro, accumulation=accumulation, ranks=ranks, effective=micro * accumulation * ranks)


def plan_learning_rate(run: Run, batch: BatchPlan | None) -> LearningRatePlan | None:
    """Scale the base rate to the effective batch.

    Linear: lr = base x effective / base batch (Goyal et al. 2017, arXiv:1706.02677, for SGD). Square root: lr = base x
    sqrt(effective / base batch), the rule that fits adaptive optimizers (Malladi et al. 2022, arXiv:2205.10287).
    """
    asked = run.learning_rate
    if asked is None or batch is None:
        return None
    factor = _factor(asked, batch.effective)
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


def _factor(asked: LearningRate, effective: int) -> float:
    """The factor that turns the base rate into the rate at an effective batch."""
    ratio = effective / asked.base_batch if asked.base_batch else 1.0
    return {"none": 1.0, "linear": ratio, "square_root": sqrt(ratio)}[asked.scaling]


def plan_elastic(run: Run, needs: Needs, batch: BatchPlan | None) -> ElasticPlan | None:
    """Batch and learning rate at every number of nodes that the run may have.

    A kept batch needs an accumulation that divides it: the next larger one is taken, and the last micro batches are smaller.
    """
    if needs.elastic is None or batch is None or run.batch is None:
        return None
    keeps = needs.elastic.keeps_batch
    sizes = []
    for nodes in range(needs.elastic.minimum, needs.elastic.maximum + 1):
        at_once = batch.micro * nodes * needs.processes_per_node
        accumulation = ceil(batch.effective / at_once) if keeps else batch.accumulation
        effective = batch.effective if keeps else at_once * accumulation
        peak = run.learning_rate.base * _factor(run.learning_rate, effective) if run.learning_rate else None
        full = effective == at_once * accumulation
        sizes.append(ElasticSize(nodes=nodes, accumulation=accumulation, effective=effective, peak=peak, full=full))
    return ElasticPlan(keeps_batch=keeps, sizes=tuple(sizes))


def plan_duration(run: Run, batch: BatchPlan | None) -> DurationPlan | None:
    """Optimizer steps, where the size of the data is known beforehand."""
    work = run.trainer
    if work is None or batch is None:
        return None
    per_epoch = work.data.train_samples
    if work.epochs is not None and per_epoch is None:
        return DurationPlan(
            epochs=work.epochs, steps=None, samples=None, reason="the number of steps depends on the data in the pod"
        )
    samples = work.target_samples(per_epoch or 0, batch.effective)
    reason = "as asked" if work.epochs is None else f"{per_epoch:,} training samples an epoch"
    return DurationPlan(epochs=work.epochs, steps=ceil(samples / batch.effective), samples=samples, reason=reason)
