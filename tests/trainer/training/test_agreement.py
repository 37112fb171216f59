"""What the ranks of a run agree on under every engine: weights, data, and what becomes of a step that is not finite."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import isfinite, isnan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.trainer.training.conformance import assert_close, losses, newest, textbook, weights, weights_of
from tests.trainer.training.conftest import Finished, Rank, Ranks, Spec

from trainwright_trainer.checkpoint import CheckpointStore
from trainwright_trainer.contract import Training
from trainwright_trainer.contract.engine import reads
from trainwright_trainer.data.load import load
from trainwright_trainer.data.order import DataOrder
from trainwright_trainer.model.build import build_model
from trainwright_trainer.rank.messages import Measured

SEQUENCES, LENGTH, VOCABULARY = 48, 16, 64
BATCH = 4
"""Two samples for each of two ranks."""
STEEP: dict[str, Any] = {"optimizer": {"kind": "sgd"}, "learning_rate": {"peak": 1e14, "schedule": "constant"}, "clip_norm": None}
"""After one such step nothing is finite any more."""


def reason(rank: Rank) -> str:
    [event] = rank.events("rank_failed")
    text: str = event["reason"]
    return text


def assert_same_weights(ranks: list[Rank]) -> None:
    """Each rank says what it has in its own memory, where it has all of them."""
    digests = [event["digest"] for rank in ranks for event in rank.events("weights_held")]
    assert len(digests) == len(ranks)
    assert len(set(digests)) == 1


@pytest.mark.whole_weights
@pytest.mark.communication
def test_all_ranks_hold_the_same_weights(finished: Finished) -> None:
    assert_same_weights(finished.ranks)


def test_a_rank_that_reads_other_data_is_refused(ranks: Ranks, spec: Spec, engine: str, tmp_path: Path) -> None:
    ours = spec(tmp_path / "lineage", engine=engine)
    other = {**ours, "work": {**ours["work"], "data": {"source": "digits", "held_out": 0.3}}}
    for rank in ranks.finish(ours, code=12, instead={1: other}):
        assert reason(rank) == "ranks [1] read other data than rank 0: the pods' images or volumes differ"


def test_non_finite_ends_with_diverged_on_every_rank(ranks: Ranks, spec: Spec, engine: str, tmp_path: Path) -> None:
    """At once, or after as many steps in a row as the run lets it skip, where the engine can."""
    directory = tmp_path / "lineage"
    run = spec(directory, engine=engine, **STEEP)
    skips = 2 if reads(run["work"]["engine"], "skip_non_finite") else 0
    run["work"]["skip_non_finite"] = skips or None
    stopped = ranks.finish(run, code=14)
    for rank in stopped:
        assert f"not finite{f' after {skips} that were skipped' if skips else ':'}" in reason(rank)
    logged = [(float(event["loss"]), float(event["grad_norm"])) for event in stopped[0].events("step")]
    assert [all(map(isfinite, values)) for values in logged[1:]] == [False] * skips  # the first step is the steep one
    for record in CheckpointStore(directory).records():
        assert all(bool(torch.isfinite(tensor).all()) for tensor in weights_of(directory, record).values())


@dataclass(frozen=True)
class Spoilt:
    """A text with one token whose embedding is NaN, in one sequence."""

    work: dict[str, Any]
    step: int
    """The step that reads it, on rank 1 alone."""
    sample: int


@pytest.fixture(scope="session")
def spoilt(tmp_path_factory: pytest.TempPathFactory) -> Spoilt:
    folder = tmp_path_factory.mktemp("spoilt")
    work = {
        "task": "causal-lm", "batch": {"micro": 2}, "duration": {"steps": 8}, "initial_weights": str(folder / "weights"),
        "model": {
            "architecture": "llama", "vocab_size": VOCABULARY, "hidden_size": 16, "intermediate_size": 32,
            "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": LENGTH,
        },
        "data": {"source": "tokens", "path": str(folder / "text.bin"), "sequence_length": LENGTH, "held_out": 0.1},
        "optimizer": {"kind": "sgd"}, "learning_rate": {"peak": 0.05, "schedule": "constant"},
    }
    ids = np.random.default_rng(0).integers(0, VOCABULARY - 1, SEQUENCES * LENGTH + 1).astype("<u2")
    training = Training.model_validate({"engine": "ddp", "checkpoints": {"directory": "/none"}, **work})
    for sequence in range(SEQUENCES):  # the order of samples follows from the text, so that the place has to be found
        text = ids.copy()
        text[sequence * LENGTH + LENGTH // 2] = VOCABULARY - 1
        text.tofile(folder / "text.bin")
        dataset = load(training.data, training.seed)
        order = DataOrder(training.seed, len(dataset.train), dataset.fingerprint)
        for step, place in product(range(3, 7), range(BATCH // 2, BATCH)):
            sample = order.batch((step - 1) * BATCH, BATCH)[place:place + 1]
            if (dataset.train.read(sample)["inputs"] == VOCABULARY - 1).any():
                write_weights(folder / "weights", training)
                return Spoilt(work, step, int(sample.ids[0]))
    raise AssertionError("rank 1 reads none of the sequences in steps 3 to 6")


def write_weights(folder: Path, training: Training) -> None:
    torch.manual_seed(0)
    model: Any = build_model(training.model, training.task, training.data)
    with torch.no_grad():
        model.get_input_embeddings().weight[VOCABULARY - 1] = torch.nan
    model.save_pretrained(folder)


def assert_one_rank_saw_it(ranks: list[Rank], spoilt: Spoilt) -> None:
    held = [spoilt.sample in rank.samples()[spoilt.step] for rank in ranks]
    assert held == [False, True]


def test_what_one_rank_finds_not_finite_ends_all(ranks: Ranks, spec: Spec, engine: str, spoilt: Spoilt, tmp_path: Path) -> None:
    """The step before it is being saved meanwhile, where the engine can, and that save is kept."""
    directory = tmp_path / "lineage"
    checkpoints = {"directory": str(directory), "every_steps": 1}
    stopped = ranks.finish(spec(directory, engine=engine, checkpoints=checkpoints, **spoilt.work), code=14)
    assert_one_rank_saw_it(stopped, spoilt)
    for rank in stopped:
        assert reason(rank).startswith(f"step {spoilt.step} is not finite")
    assert newest(directory).step == spoilt.step - 1


def test_what_one_rank_finds_not_finite_is_skipped_by_all(
    ranks: Ranks, spec: Spec, engine: str, spoilt: Spoilt, tmp_path: Path
) -> None:
    directory = tmp_path / "lineage"
    run = spec(directory, engine=engine, skip_non_finite=1, **spoilt.work)
    done = ranks.finish(run)
    assert_one_rank_saw_it(done, spoilt)
    assert_same_weights(done)
    expected = textbook(Training.model_validate(run["work"]), BATCH, 8, left_out={spoilt.step})
    assert [step for step, loss in losses(done[0]).items() if isnan(loss)] == [spoilt.step]
    assert losses(done[0]) == pytest.approx(expected.losses, rel=1e-4, nan_ok=True)
    assert_close(weights(directory), expected.weights, rtol=1e-4, atol=1e-6)


def test_what_is_not_finite_is_told_to_the_supervisor(ranks: Ranks, spec: Spec, spoilt: Spoilt, tmp_path: Path) -> None:
    done = ranks.start(spec(tmp_path / "lineage", skip_non_finite=1, **spoilt.work), linked=True)
    assert [rank.code() for rank in done] == [0, 0]
    done[0].wait_for(lambda message: isinstance(message, Measured) and isnan(message.values.get("trainwright_loss", 0)))
