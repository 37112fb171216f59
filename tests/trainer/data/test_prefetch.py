from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from trainwright_trainer.data.dataset import Prefetch

PATIENCE_SECONDS = 60.0


class Numbers:
    """Counts up, says how far it was read, and can be made to wait."""

    def __init__(self, end: int, *, error_at: int | None = None) -> None:
        self.end, self.error_at, self.read = end, error_at, 0
        self.thread: threading.Thread | None = None
        self.go = threading.Event()
        self.go.set()

    def __iter__(self) -> Iterator[int]:
        self.thread = threading.current_thread()
        for number in range(self.end):
            assert self.go.wait(PATIENCE_SECONDS)
            if number == self.error_at:
                raise ValueError(f"number {number}")
            self.read = number + 1
            yield number


def ended(batches: Prefetch[int]) -> bool:
    batches._thread.join(PATIENCE_SECONDS)
    return not batches._thread.is_alive()


def test_items_come_in_order_from_one_other_thread() -> None:
    numbers = Numbers(100)
    with Prefetch(iter(numbers), ahead=3) as batches:
        assert list(batches) == list(range(100))
        with pytest.raises(StopIteration):
            next(batches)
    assert numbers.thread not in (None, threading.current_thread())
    assert ended(batches)


@pytest.mark.parametrize("ahead", [1, 2, 5])
def test_no_more_than_that_is_read_ahead(ahead: int) -> None:
    numbers = Numbers(50)
    with Prefetch(iter(numbers), ahead) as batches:
        for taken in range(1, 40):
            next(batches)
            assert taken <= numbers.read <= taken + ahead
        with batches._changed:
            assert batches._changed.wait_for(lambda: len(batches._ready) == ahead, PATIENCE_SECONDS)
        assert numbers.read == 39 + ahead


def test_an_error_comes_after_the_items_before_it() -> None:
    with Prefetch(iter(Numbers(10, error_at=3)), ahead=5) as batches:
        assert [next(batches) for _ in range(3)] == [0, 1, 2]
        for _ in range(2):
            with pytest.raises(ValueError, match="number 3"):
                next(batches)


def test_close_ends_a_thread_that_waits_for_room() -> None:
    batches = Prefetch(iter(Numbers(1000)), ahead=2)
    assert next(batches) == 0
    batches.close()
    batches.close()
    assert ended(batches)
    assert list(batches) == []


def test_close_wakes_a_reader() -> None:
    numbers = Numbers(10)
    numbers.go.clear()
    batches = Prefetch(iter(numbers))

    def close() -> None:
        numbers.go.set()
        batches.close()

    with batches._changed:
        batches._closed = True
        batches._changed.notify_all()
    closer = threading.Timer(0.1, close)
    closer.start()
    assert list(batches) == []
    closer.join()
    assert ended(batches)


def test_leaving_the_block_on_an_error_closes_it() -> None:
    with pytest.raises(KeyError), Prefetch(iter(Numbers(1000))) as batches:
        raise KeyError
    assert ended(batches)


def test_an_error_after_the_close_is_nobodys() -> None:
    numbers = Numbers(10, error_at=1)
    batches = Prefetch(iter(numbers), ahead=1)
    with batches._changed:
        assert batches._changed.wait_for(lambda: len(batches._ready) == 1, PATIENCE_SECONDS)
    batches.close()
    assert list(batches) == []


def test_room_for_nothing() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Prefetch([1], ahead=0)
