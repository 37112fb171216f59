"""A trainer whose two workers reach each other over gloo: ``loop.py ADDRESS FOLDER``. Each says what it has, in the folder."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import ray
import torch
import torch.distributed as dist
from ray import train
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer


def one_rank(config: dict[str, str]) -> None:
    context = train.get_context()
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs = torch.randn(64, 8)[context.get_world_rank()::2]
    losses = []
    for _ in range(20):
        loss = torch.nn.functional.mse_loss(model(inputs), inputs.sum(dim=1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(loss.item())
    said = {
        "rank": dist.get_rank(), "world_size": dist.get_world_size(), "losses": losses,
        "weights": [weight.double().sum().item() for weight in model.parameters()],
    }
    Path(config["folder"], f"said-{dist.get_rank()}.json").write_text(json.dumps(said), encoding="utf-8")
    train.report({"loss": losses[-1]})


def main() -> None:
    address, folder = sys.argv[1], sys.argv[2]
    ray.init(address=address, log_to_driver=False)
    TorchTrainer(
        one_rank, train_loop_config={"folder": folder}, torch_config=TorchConfig(backend="gloo"),
        scaling_config=ScalingConfig(num_workers=2, use_gpu=False),
        run_config=RunConfig(name="two-ranks", storage_path=f"{folder}/results"),
    ).fit()
    ray.shutdown()


if __name__ == "__main__":
    main()
