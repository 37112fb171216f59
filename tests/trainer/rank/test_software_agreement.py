"""Ranks compare their software: threads in place of ranks, with a real sum over them."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from trainwright_trainer.contract import ExitCode
from trainwright_trainer.contract.failures import TopologyMismatchError, code_of
from trainwright_trainer.rank.place import Place
from trainwright_trainer.rank.software_agreement import MOST_BYTES, same_software_everywhere

OURS = {"torch": "2.13.0+cu130", "nvidia-nccl-cu13": "2.28.9"}


class Meeting:
    """What a group of so many ranks offers."""

    def __init__(self, size: int) -> None:
        self._size, self._barrier = size, threading.Barrier(size, timeout=30)
        self._values: dict[int, Sequence[float]] = {}
        self._first: Mapping[str, str] = {}

    def broadcast(self, rank: int, value: Mapping[str, str]) -> Mapping[str, str]:
        if rank == 0:
            self._first = value
        self._barrier.wait()
        return self._first

    def reduce_sums(self, rank: int, values: Sequence[float]) -> list[float]:
        self._values[rank] = values
        self._barrier.wait()
        sums = [sum(column) for column in zip(*self._values.values(), strict=True)]
        self._barrier.wait()
        return sums


def compare(*everyones: Mapping[str, str]) -> list[BaseException | None]:
    """How it ends on each rank."""
    meeting = Meeting(len(everyones))

    def on_rank(rank: int) -> BaseException | None:
        place = Place(rank, len(everyones), 0, rank)
        try:
            same_software_everywhere(
                everyones[rank], place, lambda value: meeting.broadcast(rank, value),
                lambda values: meeting.reduce_sums(rank, values),
            )
        except TopologyMismatchError as error:
            return error
        return None

    with ThreadPoolExecutor(len(everyones)) as ranks:
        return list(ranks.map(on_rank, range(len(everyones))))


def test_the_same_everywhere() -> None:
    assert compare(OURS) == [None]
    assert compare(OURS, dict(OURS), dict(OURS)) == [None] * 3


@pytest.mark.parametrize(("everyones", "sentence"), [
    (
        [OURS, OURS, {**OURS, "torch": "2.12.0+cu130"}],
        "rank 2 and rank 0 differ: they have torch 2.12.0+cu130 and 2.13.0+cu130; every pod must run the same image",
    ),
    (
        [OURS, {"torch": "2.13.0+cu130"}, {}],
        "rank 1 (and 1 more) and rank 0 differ: they have nvidia-nccl-cu13 not at all and 2.28.9; every pod must run the same "
        "image",
    ),
])
def test_every_rank_ends_with_one_sentence(everyones: list[Mapping[str, str]], sentence: str) -> None:
    ends = compare(*everyones)
    assert [str(end) for end in ends] == [sentence] * len(everyones)
    assert {code_of(end) for end in ends if end is not None} == {ExitCode.TOPOLOGY_MISMATCH}


def test_words_that_are_too_many_are_cut() -> None:
    ends = compare(OURS, {"torch": "é" * MOST_BYTES})
    assert str(ends[0]) == str(ends[1])
    assert str(ends[0]).endswith("; every pod must run the same image")
