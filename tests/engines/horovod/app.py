"""Somebody's own program with Horovod, as they would have it in their image: ``train.py --epochs N --batch-size N``."""

from __future__ import annotations

import argparse

import horovod.torch as hvd
import torch
from sklearn.datasets import load_digits  # type: ignore[import-untyped]


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--epochs", type=int)
    options.add_argument("--batch-size", type=int)
    arguments = options.parse_args()
    hvd.init()
    digits = load_digits()
    images = torch.tensor(digits.data / 16, dtype=torch.float32)[hvd.rank()::hvd.size()]
    labels = torch.tensor(digits.target)[hvd.rank()::hvd.size()]
    model = torch.nn.Linear(64, 10)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.5), named_parameters=model.named_parameters()
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    for epoch in range(arguments.epochs):
        for batch in range(0, len(images) // arguments.batch_size * arguments.batch_size, arguments.batch_size):
            part = slice(batch, batch + arguments.batch_size)
            loss = torch.nn.functional.cross_entropy(model(images[part]), labels[part])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        print(f"rank {hvd.rank()} of {hvd.size()}: epoch {epoch}: loss {loss.item():.3f}", flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
