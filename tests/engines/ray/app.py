"""Somebody's own program with Ray Train, as they would have it in their image: its storage is this identity's own folder."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import ray
import torch
from ray import train
from ray.train import Checkpoint, RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer

EPOCHS = 3


def one_rank(_config: dict[str, object]) -> None:
    rank = train.get_context().get_world_rank()
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs = torch.randn(64, 8, generator=torch.Generator().manual_seed(rank))
    for _ in range(EPOCHS):
        loss = torch.nn.functional.mse_loss(model(inputs), inputs.sum(dim=1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        with tempfile.TemporaryDirectory() as folder:
            torch.save(model.module.state_dict(), Path(folder, "model.pt"))
            directory = os.environ["TRAINWRIGHT_CHECKPOINT_DIRECTORY"]  # of the worker's own pod
            metrics = {"loss": loss.item(), "directory": directory, "node": ray.get_runtime_context().get_node_id()}
            train.report(metrics, checkpoint=Checkpoint.from_directory(folder) if rank == 0 else None)


def main() -> None:
    result = TorchTrainer(
        one_rank, torch_config=TorchConfig(backend="gloo"),
        # As many as the cluster has nodes with GPUs. No GPU is asked for: where this runs, they are no more than a number.
        scaling_config=ScalingConfig(num_workers=2, resources_per_worker={"CPU": 1}, placement_strategy="STRICT_SPREAD"),
        run_config=RunConfig(name="run", storage_path=os.environ["TRAINWRIGHT_CHECKPOINT_DIRECTORY"]),
    ).fit()
    print(f"ends with {result.metrics}", flush=True)


if __name__ == "__main__":
    main()
