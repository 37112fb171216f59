"""One rank of two, which adds up a number in the group of every kind that a run has."""

from __future__ import annotations

import os
from datetime import timedelta

import structlog
import torch

from trainwright_trainer.engine.world import TorchWorld
from trainwright_trainer.rank.place import Place

structlog.configure(processors=[lambda *_: (_ for _ in ()).throw(structlog.DropEvent)])
number = int(os.environ["RANK"])
world = TorchWorld(Place(number, 2, 0, number), torch.device("cpu"), timedelta(seconds=300))
[total] = world.new_group().reduce_sums([number + 1.0])
assert world.control.broadcast(number) == 0
print(f"rank {number} by {os.environ.get('GLOO_SOCKET_IFNAME')}: {total}", flush=True)
world.close()
