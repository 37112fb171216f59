"""Hugging Face accelerate, as its guide to gradient accumulation writes it."""

from __future__ import annotations

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedDataParallelKwargs
from torch import nn

from peers.work import Work, group_by


def train(work: Work) -> nn.Module:
    accumulation = work.training.batch.accumulation
    accelerator = Accelerator(
        cpu=work.device.type == "cpu",
        mixed_precision="bf16" if work.bf16 else "no",
        gradient_accumulation_steps=accumulation,
        kwargs_handlers=[DistributedDataParallelKwargs(gradient_as_bucket_view=True)],
    )
    module = work.model()
    optimizer = work.optimizer(module)
    schedule = work.schedule(optimizer)  # not prepared: accelerate would step it once for each process
    model, optimizer = accelerator.prepare(module, optimizer)
    total = torch.zeros((), device=work.device)
    for number, batch in enumerate(work.loader()):
        with accelerator.accumulate(model):
            loss = model(**work.moved(batch)).loss
            accelerator.backward(loss)
            total += loss.detach() / accumulation
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), work.clip_norm)
            optimizer.step()
            optimizer.zero_grad()
        step, last = group_by(accumulation, number)
        if not last:
            continue
        schedule.step()
        if work.is_due(step):
            work.report(step, float(accelerator.reduce(total, "mean")))
        total.zero_()
    return module
