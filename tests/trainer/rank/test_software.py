"""Versions of software: which differ between two pods, and ranks that agree on them."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from trainwright_trainer.contract import ExitCode
from trainwright_trainer.contract.failures import TopologyMismatchError
from trainwright_trainer.rank import software
from trainwright_trainer.rank.ending import code_of
from trainwright_trainer.rank.place import Place
from trainwright_trainer.rank.software import MOST_BYTES, same_software_everywhere

VERSIONS = st.dictionaries(st.sampled_from(software.PACKAGES), st.sampled_from(["1.0", "1.0+cpu", "2.0"]))
OURS = {"torch": "2.13.0+cu130", "deepspeed": "0.19.8", "transformers": "5.23.0"}


def test_what_is_installed_is_read_and_not_imported(tmp_path: Path) -> None:
    metadata = tmp_path / "horovod-0.0.1.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: horovod\nVersion: 0.0.1\n")
    code = (
        f"import json, sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from trainwright_trainer.rank import software\n"
        "print(json.dumps([software.installed(), sorted(set(sys.modules) & {'torch', 'transformers'})]))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    versions, imported = json.loads(found.stdout)
    assert torch.__version__.startswith(versions["torch"])  # a wheel of the package index does not name its build there
    assert versions["horovod"] == "0.0.1"
    assert set(versions) <= set(software.PACKAGES)
    assert imported == []


@pytest.mark.parametrize(("theirs", "sentence"), [
    (OURS, None),
    ({**OURS, "torch": "2.13.0+cu126"}, "torch 2.13.0+cu126 and 2.13.0+cu130"),
    ({"torch": "2.12.0", "transformers": "5.23.0"}, "torch 2.12.0 and 2.13.0+cu130, deepspeed not at all and 0.19.8"),
    ({**OURS, "ray": "2.60.0"}, "ray 2.60.0 and not at all"),
])
def test_differences(theirs: dict[str, str], sentence: str | None) -> None:
    assert software.difference(theirs, OURS) == sentence


@given(VERSIONS, VERSIONS)
def test_only_the_same_is_no_difference(theirs: dict[str, str], ours: dict[str, str]) -> None:
    assert (software.difference(theirs, ours) is None) == (theirs == ours)


RANK_0S = {"torch": "2.13.0+cu130", "nvidia-nccl-cu13": "2.28.9"}


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
    assert compare(RANK_0S) == [None]
    assert compare(RANK_0S, dict(RANK_0S), dict(RANK_0S)) == [None] * 3


@pytest.mark.parametrize(("everyones", "sentence"), [
    (
        [RANK_0S, RANK_0S, {**RANK_0S, "torch": "2.12.0+cu130"}],
        "rank 2 and rank 0 differ: they have torch 2.12.0+cu130 and 2.13.0+cu130; every pod must run the same image",
    ),
    (
        [RANK_0S, {"torch": "2.13.0+cu130"}, {}],
        "rank 1 (and 1 more) and rank 0 differ: they have nvidia-nccl-cu13 not at all and 2.28.9; every pod must run the same "
        "image",
    ),
])
def test_every_rank_ends_with_one_sentence(everyones: list[Mapping[str, str]], sentence: str) -> None:
    ends = compare(*everyones)
    assert [str(end) for end in ends] == [sentence] * len(everyones)
    assert {code_of(end) for end in ends if end is not None} == {ExitCode.TOPOLOGY_MISMATCH}


def test_words_that_are_too_many_are_cut() -> None:
    ends = compare(RANK_0S, {"torch": "é" * MOST_BYTES})
    assert str(ends[0]) == str(ends[1])
    assert str(ends[0]).endswith("; every pod must run the same image")
