"""Rows without a target, and held-out rows that cannot be read: they are named, and cost no training."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.trainer.data.tokenizer_files import TEXTS, byte_level
from tests.trainer.training.conformance import losses, newest
from tests.trainer.training.conftest import Ranks, Spec

from trainwright_trainer.contract.failures import DataError
from trainwright_trainer.data.dataset import Columns, HeldOut
from trainwright_trainer.data.order import PADDING, Samples

LLAMA = {
    "architecture": "llama", "vocab_size": 400, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1,
    "num_attention_heads": 2, "max_position_embeddings": 16,
}
LINES = [line for text in TEXTS for line in text.splitlines() if len(line) > 10][:8]
Make = Callable[..., dict[str, Any]]


@pytest.fixture
def run_of(spec: Spec, tmp_path: Path) -> Make:
    import datasets  # type: ignore[import-untyped]

    def make(held_out: list[str | None], train: list[str] = LINES, **work: Any) -> dict[str, Any]:
        parts = {"train": train, "validation": held_out}
        features = datasets.Features({"text": datasets.Value("string")})
        rows = {name: datasets.Dataset.from_dict({"text": part}, features) for name, part in parts.items()}
        datasets.DatasetDict(rows).save_to_disk(tmp_path / "lines")
        data = {"source": "hf-dataset", "path": str(tmp_path / "lines"), "tokenizer": str(byte_level(tmp_path)), "max_length": 12}
        return spec(tmp_path / "lineage", task="causal-lm", model=LLAMA, data=data, batch={"micro": 1}, **work)

    return make


@pytest.mark.parametrize("engine", ["ddp", "fsdp2"])
def test_steps_without_targets(ranks: Ranks, run_of: Make, engine: str) -> None:
    """Four rows of eight have one token, which has nothing after it."""
    leader, _ = ranks.finish(run_of(list(LINES), ["x"] * 4 + list(LINES[:4]), engine=engine, duration={"steps": 16}))
    found = losses(leader)
    named = [event["step"] for event in leader.events("step_without_targets")]
    assert named
    assert [step for step, loss in found.items() if loss == 0] == named
    assert [event["so_far"] for event in leader.events("step_without_targets")] == list(range(1, len(named) + 1))
    assert np.isfinite(list(found.values())).all()


@pytest.mark.parametrize(("held_out", "scored"), [
    (["x"] * 5, 0), ([None, *LINES, None, "y"], 1), ([*LINES, None], 1), ([None, None, LINES[0]], 1),
])
def test_held_out_rows_cost_no_training(ranks: Ranks, run_of: Make, held_out: list[str | None], scored: int) -> None:
    run = run_of(held_out, evaluation={"every_steps": 2}, duration={"steps": 5})
    both = ranks.finish(run)
    assert newest(Path(run["work"]["checkpoints"]["directory"])).step == 5
    evaluated = both[0].events("evaluated")
    assert len(evaluated) == 3 * scored
    assert len(both[0].events("nothing_evaluated")) == 3 * (1 - scored)
    said = [event["sample"] for rank in both for event in rank.events("held_out_sample_left_out")]
    assert set(said) == {number for number, text in enumerate(held_out) if text is None}
    assert len({event["loss"] for event in evaluated}) == len(evaluated), "each is of the model of its step"


class Damaged(Columns):
    """Reads a sample where there is none, as ``Columns`` does, and fails at some."""

    bad: frozenset[int] = frozenset()

    def read(self, samples: Samples) -> Any:
        if wrong := self.bad & {int(number) % len(self) for number in samples.ids}:
            raise DataError(f"row {min(wrong)} is bad")
        return super().read(samples)


@pytest.mark.parametrize("bad", [{5}, {0}, {0, 5}, {2, 3}, {0, 1, 2, 3, 4}])
def test_all_but_the_bad(bad: set[int]) -> None:
    split = Damaged({"value": np.arange(6)})
    object.__setattr__(split, "bad", frozenset(bad))
    held_out = HeldOut(split)
    asked = Samples(np.array([0, 1, 2, 3, 4, 5, PADDING]), np.arange(7))
    left = held_out.without_bad(asked)
    assert left.ids.tolist() == [PADDING if number in bad else number for number in asked.ids.tolist()]
    values = held_out.read(left)["value"]
    assert [value for value, number in zip(values, left.ids, strict=True) if number >= 0] == sorted(set(range(6)) - bad)
    assert set(held_out.left_out) == bad


def test_none_that_can_be_read() -> None:
    split = Damaged({"value": np.arange(2)})
    object.__setattr__(split, "bad", frozenset({0, 1}))
    with pytest.raises(DataError):
        HeldOut(split).read(Samples(np.array([PADDING]), np.array([0])))
