"""A rank's account of its steps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from trainwright_trainer.data.order import NOTHING, Samples
from trainwright_trainer.rank.place import Place
from trainwright_trainer.training.witness import (
    WITNESS_ENV,
    Nobody,
    StepSamples,
    StepTime,
    account_path,
    open_witness,
    read_account,
)

CPU = torch.device("cpu")
PLACE = Place(rank=1, world_size=2, local_rank=1, node=0)


def samples(*ids: int) -> Samples:
    return Samples(np.array(ids), np.arange(len(ids)) + 10)


def batch(*rows: float) -> dict[str, torch.Tensor]:
    return {"images": torch.tensor(rows).reshape(-1, 1), "labels": torch.arange(len(rows))}


def test_nobody_asks_and_nothing_is_written() -> None:
    assert isinstance(open_witness({}, PLACE, CPU), Nobody)


def test_samples_are_told_with_their_contents(tmp_path: Path) -> None:
    witness = open_witness({WITNESS_ENV: f"samples:{tmp_path}"}, PLACE, CPU)
    witness.record(1, [samples(7, 3), NOTHING], [batch(0.5, 0.25), batch(0.0)], 0.1)
    witness.record(2, [samples(3, 7)], [batch(0.25, 0.75)], 0.1)
    first, second = read_account(tmp_path, 1, StepSamples)
    assert (first.step, first.ids, first.positions) == (1, (7, 3), (10, 11))  # what stands for no sample is none
    assert len(set(first.contents + second.contents)) == 4  # other pixels, or another label with the same ones
    assert read_account(tmp_path, 0, StepSamples) == []


def test_a_line_that_a_kill_cut_is_passed_over(tmp_path: Path) -> None:
    witness = open_witness({WITNESS_ENV: f"times:{tmp_path}"}, PLACE, CPU)
    for step in (1, 2):
        witness.record(step, [samples(1)], [batch(1.0)], 0.25)
    path = account_path(tmp_path, 1)
    path.write_bytes(path.read_bytes()[:-20])
    [only] = read_account(tmp_path, 1, StepTime)
    assert (only.step, only.data_seconds, only.device) == (1, 0.25, "cpu")
    assert only.peak_bytes > 2**20


@pytest.mark.parametrize("at", [0, 1])
def test_any_other_line_that_is_none_is_an_error(at: int, tmp_path: Path) -> None:
    witness = open_witness({WITNESS_ENV: f"times:{tmp_path}"}, PLACE, CPU)
    for step in (1, 2, 3):
        witness.record(step, [samples(1)], [batch(1.0)], 0.25)
    path = account_path(tmp_path, 1)
    lines = path.read_bytes().splitlines()
    lines[at] = lines[at][:-20]
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(ValueError, match=rf"line {at + 1} of .*rank-1.jsonl is no account of a step"):
        read_account(tmp_path, 1, StepTime)


def test_another_word_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must be times:DIRECTORY or samples:DIRECTORY"):
        open_witness({WITNESS_ENV: str(tmp_path)}, PLACE, CPU)
