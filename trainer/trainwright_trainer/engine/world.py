"""World: the ranks of a run as an engine connects them, and torch's own way to do it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from trainwright_trainer.engine.waits import Waits
from trainwright_trainer.rank.group import Group
from trainwright_trainer.rank.interface import name_interface
from trainwright_trainer.rank.place import Place

T = TypeVar("T")


class World(Protocol):
    """The ranks of a run. All of them make the same calls in the same order."""

    @property
    def place(self) -> Place:
        """This rank."""

    @property
    def device(self) -> torch.device:
        """Where this rank computes."""

    @property
    def control(self) -> Group:
        """For words between the hosts of the ranks."""

    @property
    def waits(self) -> Waits:
        """What of the steps goes into collectives of the device."""

    def new_group(self) -> Group:
        """One more group like :attr:`control`, for a thread of its own."""

    def all_reduce(self, tensor: Tensor) -> None:
        """Sum a tensor on the device over all ranks, in place."""

    def broadcast(self, tensor: Tensor) -> None:
        """Overwrite a tensor with rank 0's, on the device or on the host."""

    def close(self) -> None:
        """Leave in order."""


class TorchGroup:
    """A gloo group: it needs no memory of a GPU and waits for no kernel there."""

    def __init__(self, place: Place, timeout: timedelta) -> None:
        self._place = place
        self._group = dist.new_group(backend="gloo", timeout=timeout)

    def reduce_sums(self, values: Sequence[float]) -> list[float]:
        tensor = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(tensor, group=self._group)
        return [float(value) for value in tensor]

    def broadcast(self, value: T) -> T:
        values = [value]
        dist.broadcast_object_list(values, src=0, group=self._group)
        return values[0]

    def gather(self, value: T) -> list[T]:
        gathered: list[T | None] | None = [None] * self._place.world_size if self._place.leads else None
        dist.gather_object(value, gathered, dst=0, group=self._group)
        return [part for part in gathered or [] if part is not None]

    def broadcast_tensor(self, tensor: Tensor) -> None:
        """Overwrite a tensor on the host with rank 0's."""
        dist.broadcast(tensor, src=0, group=self._group)


class TorchWorld:
    """The ranks of a run as torch.distributed connects them: gloo between CPUs, NCCL between GPUs.

    Args:
        place: This rank; the address of rank 0 comes from MASTER_ADDR and MASTER_PORT.
        device: Where to compute, ``cpu`` or ``cuda:<local rank>``.
        timeout: Longest wait in one collective. The supervisor finds lost peers much sooner; a save must fit in.
    """

    def __init__(self, place: Place, device: torch.device, timeout: timedelta) -> None:
        self.place, self.device, self.waits, self._timeout = place, device, Waits(device), timeout
        cuda = device.type == "cuda"
        name_interface(os.environ, place)
        dist.init_process_group(
            "nccl" if cuda else "gloo", init_method="env://", rank=place.rank, world_size=place.world_size, timeout=timeout,
            device_id=device if cuda else None,
        )
        self.control = TorchGroup(place, timeout)

    def new_group(self) -> TorchGroup:
        return TorchGroup(self.place, self._timeout)

    def all_reduce(self, tensor: Tensor) -> None:
        with self.waits.waiting():
            dist.all_reduce(tensor)

    def broadcast(self, tensor: Tensor) -> None:
        if tensor.device == self.device:
            dist.broadcast(tensor, src=0)
        else:
            self.control.broadcast_tensor(tensor)

    def close(self) -> None:
        dist.destroy_process_group()
