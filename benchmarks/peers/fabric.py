"""Lightning Fabric, as its guide to gradient accumulation writes it."""

from __future__ import annotations

import torch
from lightning_fabric import Fabric
from lightning_fabric.plugins.environments import TorchElasticEnvironment
from lightning_fabric.strategies import DDPStrategy
from torch import nn

from peers.work import Work, group_by


def train(work: Work) -> nn.Module:
    accumulation = work.training.batch.accumulation
    fabric = Fabric(
        accelerator=work.device.type,
        devices=work.world_size,
        precision="bf16-mixed" if work.bf16 else "32-true",
        strategy=DDPStrategy(gradient_as_bucket_view=True) if work.world_size > 1 else "auto",
        plugins=[TorchElasticEnvironment()] if work.world_size > 1 else [],
    )
    fabric.launch()
    module = work.model()
    optimizer = work.optimizer(module)
    schedule = work.schedule(optimizer)
    model, optimizer = fabric.setup(module, optimizer)
    total = torch.zeros((), device=work.device)
    for number, batch in enumerate(work.loader()):
        step, last = group_by(accumulation, number)
        with fabric.no_backward_sync(model, enabled=not last):
            loss = model(**work.moved(batch)).loss / accumulation
            fabric.backward(loss)
        total += loss.detach()
        if not last:
            continue
        # fabric.clip_gradients calls the same function, with the parameters in the order of the optimizer's groups: another
        # order of summation, so the norm differs in its last bits, and after 60 steps the loss in its fourth digit.
        nn.utils.clip_grad_norm_(module.parameters(), work.clip_norm)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if work.is_due(step):
            work.report(step, float(fabric.all_reduce(total, reduce_op="mean")))
        total.zero_()
    return module
