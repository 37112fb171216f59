"""Somebody's own program with torch, as they would have it in their image: it takes all that it needs from the environment."""

from __future__ import annotations

import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    images = torch.rand(1000, 64)
    labels = (images @ torch.randn(64, 10)).argmax(dim=1)[rank::world]
    images = images[rank::world]
    model = DistributedDataParallel(torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(10):
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    if rank == 0:
        directory = Path(os.environ["TRAINWRIGHT_CHECKPOINT_DIRECTORY"])
        directory.mkdir(parents=True, exist_ok=True)  # which nothing makes for an opaque command
        torch.save(model.module.state_dict(), directory / "model.pt")
    print(f"rank {rank} of {world} ends at loss {loss.item():.3f}", flush=True)
    dist.barrier()  # no rank is gone while another still takes its connections down
    dist.destroy_process_group()
    os._exit(0)  # gloo's threads are still there, and one that wakes while the interpreter takes itself down aborts the process


if __name__ == "__main__":
    main()
