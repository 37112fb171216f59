"""One rank of :mod:`test_initialise`: shards models, starts them, and writes down what all ranks hold together."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from tests.trainer.model.recipes import RECIPES
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from trainwright_trainer.model.blocks import blocks
from trainwright_trainer.model.initialise import initialise, materialise, skeleton


def run_sharded(names: Sequence[str], rank: int, world_size: int, port: int, folder: Path) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world_size)
    mesh = init_device_mesh("cpu", (world_size,))
    for name in names:
        torch.save(_whole(name, mesh), folder / f"{name}-{rank}.pt")
    dist.destroy_process_group()


def _whole(name: str, mesh: DeviceMesh) -> dict[str, Tensor]:
    module: Any = skeleton(RECIPES[name].build)
    for block in blocks(module):
        fully_shard(block, mesh=mesh)
    fully_shard(module, mesh=mesh)
    materialise(module, torch.device("cpu"))
    assert all(isinstance(parameter, DTensor) for parameter in module.parameters())
    initialise(module, seed=1)
    if RECIPES[name].task == "causal-lm":  # it runs, and its sums come through the hooks
        tokens = torch.arange(64).reshape(2, 32)
        loss, _ = module(input_ids=tokens, targets=tokens)
        loss.backward()
        module.zero_grad()
    return {key: value.full_tensor() if isinstance(value, DTensor) else value for key, value in module.state_dict().items()}
