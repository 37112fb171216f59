"""A loop of one's own by torch, its weights sharded over the ranks by FSDP2, saved by torch.distributed.checkpoint."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from tests.engines.adapters.scripts.weights import STEPS, a_moment, tell
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from trainwright_trainer import run
from trainwright_trainer.adapters.distributed_checkpoint import load, save


def main() -> None:
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    fully_shard(model, mesh=init_device_mesh("cpu", (run.world.size,)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    def state() -> dict[str, Any]:
        weights, moments = get_state_dict(model, optimizer)
        return {"model": weights, "optimizer": moments}

    held = state()
    done = load(held)
    set_state_dict(model, optimizer, model_state_dict=held["model"], optim_state_dict=held["optimizer"])
    for step in range(done + 1, STEPS + 1):
        inputs = torch.randn(4, 8, generator=torch.Generator().manual_seed(1000 * step + run.world.rank))
        loss = torch.nn.functional.mse_loss(model(inputs), inputs.sum(dim=1, keepdim=True))
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
        a_moment()
        run.step(step, loss=loss)
        stop = run.should_stop()
        if stop or step % 5 == 0:
            save(state())
        if stop:
            run.stopped()
    whole = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    whole.load_state_dict({name: weights.full_tensor() for name, weights in model.state_dict().items()})
    tell(whole)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
