"""torch alone: DistributedDataParallel and a loop, with nothing that a step does not need. The ceiling that we aim at."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from peers.work import Work, group_by


def train(work: Work) -> nn.Module:
    if work.world_size > 1:
        dist.init_process_group("gloo" if work.device.type == "cpu" else "nccl", timeout=timedelta(minutes=5))
    module = work.model()
    model: Any = DistributedDataParallel(module, gradient_as_bucket_view=True) if dist.is_initialized() else module
    optimizer = work.optimizer(module)
    schedule = work.schedule(optimizer)
    accumulation = work.training.batch.accumulation
    total = torch.zeros((), device=work.device)
    for number, batch in enumerate(work.loader()):
        step, last = group_by(accumulation, number)
        with nullcontext() if last or not dist.is_initialized() else model.no_sync():
            with torch.autocast(work.device.type, torch.bfloat16, enabled=work.bf16):
                loss = model(**work.moved(batch)).loss / accumulation
            loss.backward()
        total += loss.detach()
        if not last:
            continue
        nn.utils.clip_grad_norm_(module.parameters(), work.clip_norm)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if work.is_due(step):
            if dist.is_initialized():
                dist.all_reduce(total)
            work.report(step, float(total) / work.world_size)
        total.zero_()
    return module
