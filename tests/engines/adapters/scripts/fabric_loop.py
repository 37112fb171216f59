"""A loop of one's own by Lightning Fabric."""

from __future__ import annotations

import os

import torch
from lightning_fabric import Fabric
from tests.engines.adapters.scripts.weights import STEPS, a_moment, tell

from trainwright_trainer import run
from trainwright_trainer.adapters.lightning import load, save


def main() -> None:
    nodes = int(os.environ["GROUP_WORLD_SIZE"])
    fabric = Fabric(accelerator="cpu", strategy="ddp", devices=run.world.local_size, num_nodes=nodes)
    fabric.launch()
    fabric.seed_everything(5)
    layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    model, optimizer = fabric.setup(layers, torch.optim.AdamW(layers.parameters(), lr=1e-2))
    state = {"model": model, "optimizer": optimizer}
    done = load(fabric, state)
    for step in range(done + 1, STEPS + 1):
        inputs = torch.randn(4, 8, generator=torch.Generator().manual_seed(1000 * step + run.world.rank))
        loss = torch.nn.functional.mse_loss(model(inputs), inputs.sum(dim=1, keepdim=True))
        fabric.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        a_moment()
        run.step(step, loss=loss)
        stop = run.should_stop()
        if stop or step % 5 == 0:
            save(fabric, state)
        if stop:
            run.stopped()
    tell(layers)
    fabric.barrier()


if __name__ == "__main__":
    main()
