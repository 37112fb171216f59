"""A rank under mpirun: the collectives of Horovod, and a model trained with its optimizer. Says what it has."""

from __future__ import annotations

import json
from pathlib import Path

import horovod.torch as hvd
import torch


def main() -> None:
    hvd.init()
    rank, size = hvd.rank(), hvd.size()
    summed = hvd.allreduce(torch.full((3,), float(rank + 1)), op=hvd.Sum, name="sum").tolist()
    gathered = hvd.allgather(torch.full((rank + 1, 1), float(rank)), name="gather").flatten().tolist()
    told = hvd.broadcast_object({"from": rank}, root_rank=1, name="told")

    torch.manual_seed(rank)  # other weights on each rank, until rank 0 tells its own
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    inputs, losses = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))[rank::size], []
    for _ in range(100):
        loss = torch.nn.functional.mse_loss(model(inputs), inputs.sum(dim=1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(loss.item())
    said = {
        "rank": rank, "size": size, "mpi": hvd.mpi_built(), "gloo": hvd.gloo_built(),
        "summed": summed, "gathered": gathered, "told": told,
        "losses": losses, "weights": [weight.double().sum().item() for weight in model.parameters()],
    }
    Path(f"said-{rank}.json").write_text(json.dumps(said), encoding="utf-8")
    hvd.shutdown()


if __name__ == "__main__":
    main()
