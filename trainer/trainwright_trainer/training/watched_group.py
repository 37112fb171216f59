"""A group whose waits are told: to the meter, which takes them off this rank's own time, and to the supervisor as progress."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from trainwright_trainer.rank.link import Link
from trainwright_trainer.training.reporting import Meter

if TYPE_CHECKING:
    from torch import Tensor

    from trainwright_trainer.engine.world import Group

T = TypeVar("T")


class WatchedGroup:
    """A :class:`Group` for the main thread. Before each collective this rank says that it has come so far.

    In a run that hangs, the rank that has said it least often is the one that the others wait for.
    """

    def __init__(self, group: Group, link: Link, meter: Meter) -> None:
        self._group, self._link, self._meter = group, link, meter

    def reduce_sums(self, values: Sequence[float]) -> list[float]:
        with self._together():
            return self._group.reduce_sums(values)

    def broadcast_object(self, value: T) -> T:
        with self._together():
            return self._group.broadcast_object(value)

    def gather_objects(self, value: T) -> list[T]:
        with self._together():
            return self._group.gather_objects(value)

    def broadcast_tensor(self, tensor: Tensor) -> None:
        with self._together():
            self._group.broadcast_tensor(tensor)

    @contextmanager
    def _together(self) -> Iterator[None]:
        self._link.mark()
        with self._meter.waiting():
            yield
        self._link.mark()
