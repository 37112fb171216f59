"""What the trainer asks of a data set, and the thread that reads its next batches while the model works on this one."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from trainwright_trainer.contract.failures import DataError
from trainwright_trainer.data.order import PADDING, Samples
from trainwright_trainer.observe.log import get_log

Array = npt.NDArray[np.generic]
Item = TypeVar("Item")

IGNORED = -100
"""Target that counts neither in the loss nor as an item: torch's own default for ``ignore_index``."""


class Split(Protocol):
    """Samples that are read by number. :meth:`read` is called from one thread at a time."""

    def __len__(self) -> int:
        """Samples; ids are below it."""

    def read(self, samples: Samples) -> Mapping[str, Array]:
        """Columns whose first dimension is ``len(samples)``. Where the id is ``PADDING`` they hold anything of the right shape.

        What is drawn at random (a crop, a flip) follows from the sample's position alone.

        Raises:
            DataError: A sample cannot be read, or holds what its source may not hold.
        """


class Unreadable:
    """Files of a data set that cannot be decoded, as far as this rank has met them. Safe from any thread.

    Args:
        limit: How many of them the rank may leave out.
    """

    def __init__(self, limit: int) -> None:
        self._limit, self._paths, self._lock = limit, set[Path](), threading.Lock()

    @property
    def count(self) -> int:
        return len(self._paths)

    def leave_out(self, path: Path, reason: str) -> None:
        """Log it, once. Raises :class:`DataError` where it is one too many."""
        with self._lock:
            if path in self._paths:
                return
            if self.count >= self._limit:
                beyond = f"; it is one more than skip_unreadable allows, {self._limit}" if self._limit else ""
                raise DataError(f"{path} is not a readable image: {reason}{beyond}")
            self._paths.add(path)
        get_log().warning("image_left_out", path=str(path), reason=reason, left_out=self.count, allowed=self._limit)


class HeldOut:
    """A split that is evaluated without the samples that cannot be read: they say little of a model, and cost no training."""

    def __init__(self, split: Split) -> None:
        self._split, self._good = split, -1
        self.left_out: dict[int, str] = {}
        """Sample -> why, as far as this rank has met them."""

    def __len__(self) -> int:
        return len(self._split)

    def read(self, samples: Samples) -> Mapping[str, Array]:
        """What is left out holds another sample in its place. Raises :class:`DataError` where no sample can be read at all."""
        try:
            return self._split.read(samples)
        except DataError:
            while not self._reads(self._good):  # a source may read a sample that is bad where there is none
                self._good += 1
                if self._good >= len(self._split):
                    raise
            ids = np.where(self.without_bad(samples).ids < 0, self._good, samples.ids)
            return self._split.read(Samples(ids, samples.positions))

    def collated(self, collate: Callable[[Split, Samples], Item], samples: Samples) -> Item:
        """The batch that ``collate`` makes of them, with padding for those that cannot be read."""
        try:
            return collate(self._split, samples)
        except DataError:
            return collate(self, self.without_bad(samples))

    def without_bad(self, samples: Samples) -> Samples:
        """With ``PADDING`` for each that cannot be read."""
        bad = [number for number in samples.ids.tolist() if number >= 0 and not self._reads(number)]
        return Samples(np.where(np.isin(samples.ids, bad), PADDING, samples.ids), samples.positions) if bad else samples

    def _reads(self, number: int) -> bool:
        if number < 0 or number in self.left_out:
            return False
        try:
            self._split.read(Samples(np.array([number]), np.array([number])))
        except DataError as error:
            self.left_out[number] = str(error)
            return False
        return True


@dataclass(frozen=True, slots=True)
class Columns:
    """A split in memory: arrays that share their first dimension."""

    columns: Mapping[str, Array]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def read(self, samples: Samples) -> Mapping[str, Array]:
        """The rows of these ids; ``PADDING`` is a valid index, and reads the last one."""
        return {name: column[samples.ids] for name, column in self.columns.items()}


@dataclass(frozen=True, slots=True)
class Dataset:
    """A training and a held-out split, and the digest of everything that decides what a sample id means."""

    train: Split
    held_out: Split
    fingerprint: str
    vocabulary: int | None = None
    """Token ids are below it, but for those that a source checks as it reads them; None for images."""
    padding: int | None = None
    """Token that fills up short samples; None where none are short."""
    unreadable: Unreadable | None = None
    """Of a source that goes on without files that it cannot decode."""


CLOSE_SECONDS = 5.0
"""A read that hangs in a volume cannot be interrupted; after so long the thread is left to the end of the process."""


class Prefetch(Generic[Item]):
    """An iterator over ``items`` that one thread keeps ``ahead`` items in front of its reader.

    Items come in their order. What ``items`` raises is raised here, after the items before it. Leave the ``with`` block, or call
    :meth:`close`, to end the thread before the last item.

    Args:
        items: Read by the thread alone.
        ahead: Items that wait, the one in the making included. At least 1.
    """

    def __init__(self, items: Iterable[Item], ahead: int = 2) -> None:
        if ahead < 1:
            raise ValueError("reading ahead needs room for at least one item")
        self._items, self._ahead = iter(items), ahead
        self._ready: deque[Item] = deque()
        self._error: BaseException | None = None
        self._ended = self._closed = False
        self._changed = threading.Condition()
        # A daemon: Python waits for other threads at exit, and a hung volume would keep the process.
        self._thread = threading.Thread(target=self._read, name="prefetch", daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[Item]:
        return self

    def __next__(self) -> Item:
        with self._changed:
            self._changed.wait_for(lambda: self._ready or self._ended or self._closed)
            if self._ready:
                item = self._ready.popleft()
                self._changed.notify_all()
                return item
            if self._error is not None:
                raise self._error
            raise StopIteration

    def __enter__(self) -> Prefetch[Item]:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the thread after the item that it is making, and let go of what is ready. May be called twice."""
        with self._changed:
            self._closed = True
            self._error = None
            self._ready.clear()
            self._changed.notify_all()
        self._thread.join(CLOSE_SECONDS)

    def _read(self) -> None:
        error: BaseException | None = None
        try:
            while self._has_room():
                self._put(next(self._items))
        except StopIteration:
            pass
        except BaseException as raised:
            error = raised
        with self._changed:
            self._error, self._ended = None if self._closed else error, True
            self._changed.notify_all()

    def _has_room(self) -> bool:
        """Waits for it; False when nobody wants more."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._ready) < self._ahead)
            return not self._closed

    def _put(self, item: Item) -> None:
        with self._changed:
            if not self._closed:
                self._ready.append(item)
            self._changed.notify_all()
