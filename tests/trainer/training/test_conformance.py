"""What every engine must hold, shown on whole runs of real processes. A new engine is a new parameter here."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.trainer.training.conftest import Rank, Ranks, Spec

from trainwright_trainer import random_state
from trainwright_trainer.checkpoint import CheckpointStore, CommitRecord, read_complete
from trainwright_trainer.contract import Training
from trainwright_trainer.data.load import load
from trainwright_trainer.data.order import DataOrder
from trainwright_trainer.lifecycle.messages import Act, At, Committed, Measured, Where
from trainwright_trainer.model.build import build_model
from trainwright_trainer.optim.build import build_optimizer
from trainwright_trainer.optim.schedule import learning_rate
from trainwright_trainer.task.build import build_task

ENGINES = ("ddp",)
HARD = {"precision": "bf16", "clip_norm": 0.5}
"""Settings that a resume could get wrong, with dropout in the model."""
STEPS, EVERY = 60, 20
"""Long enough that a request in the middle finds the run still going on a loaded machine."""


def hard(spec: Spec, directory: Path, engine: str, **work: Any) -> dict[str, Any]:
    built = spec(directory, engine=engine, **HARD, **work)
    built["work"]["model"]["dropout"] = 0.1
    built["work"]["duration"] = {"steps": STEPS}
    built["work"]["checkpoints"]["every_steps"] = EVERY
    return built


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def uninterrupted(module_ranks: Ranks, spec: Spec, engine: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("uninterrupted") / "lineage"
    module_ranks.finish(hard(spec, directory, engine))
    return directory


def newest(directory: Path) -> CommitRecord:
    return CheckpointStore(directory).records()[0]


def assert_same_bits(directory: Path, other: Path) -> None:
    """Every file of the newest checkpoints: weights, optimizer and random state."""
    ours, theirs = newest(directory), newest(other)
    assert ours.step == theirs.step
    assert {file.name for file in ours.files} == {file.name for file in theirs.files}
    assert set(ours.files) == set(theirs.files)  # sizes and digests


def losses(rank: Rank) -> dict[int, float]:
    return {event["step"]: event["loss"] for event in rank.events("step")}


def plain_losses(work: Training, global_batch: int, steps: int) -> dict[int, float]:
    """The textbook loop: one process, no engine, the whole batch at once."""
    dataset, task = load(work.data), build_task(work.task)
    random_state.seed_all(work.seed, "model")
    module = build_model(work.model, work.task, work.data).train()
    optimizer = build_optimizer(work.optimizer, module, work.learning_rate.peak)
    order = DataOrder(work.seed, len(dataset.train), dataset.fingerprint)
    found = {}
    for step in range(1, steps + 1):
        batch = task.collate(dataset.train, order.batch_ids((step - 1) * global_batch, global_batch))
        loss = task.measure(module, batch).loss / global_batch
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(module.parameters(), work.clip_norm or torch.inf)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(work.learning_rate, step * global_batch, steps * global_batch)
        optimizer.step()
        found[step] = float(loss.detach())
    return found


def test_equals_plain_training_in_one_process(ranks: Ranks, spec: Spec, engine: str, tmp_path: Path) -> None:
    run = spec(tmp_path / "lineage", engine=engine, batch={"micro": 8, "accumulation": 2}, duration={"steps": 8})
    leader, _ = ranks.finish(run)
    assert losses(leader) == pytest.approx(plain_losses(Training.model_validate(run["work"]), 32, 8), rel=1e-4)


def test_loss_falls_and_the_run_is_complete(ranks: Ranks, spec: Spec, engine: str, tmp_path: Path) -> None:
    directory = tmp_path / "lineage"
    settings: dict[str, Any] = {"duration": {"epochs": 4}, "checkpoints": {"directory": str(directory)}}
    leader, other = ranks.finish(spec(directory, engine=engine, **settings))
    by_step = losses(leader)
    assert by_step[max(by_step)] < 0.7 * by_step[1]
    assert leader.events("evaluated")[-1]["accuracy"] > 0.5
    assert not other.events("step")
    complete = read_complete(directory)
    assert complete is not None
    assert (complete.identity, complete.step) == ("digits-1", newest(directory).step)


def test_resume_equals_uninterrupted(ranks: Ranks, spec: Spec, engine: str, uninterrupted: Path, tmp_path: Path) -> None:
    directory = tmp_path / "lineage"
    told = ranks.start(hard(spec, directory, engine), linked=True)
    told[0].wait_for(lambda message: isinstance(message, Measured) and message.values.get("trainwright_step", 0) >= 3)
    for rank in told:
        rank.say(Where(request=1))
    ticks = [answer.tick for rank in told if isinstance(answer := rank.wait_for(lambda m: isinstance(m, At)), At)]
    assert len(ticks) == 2
    tick = max(tick for tick in ticks if tick is not None) + 1
    for rank in told:
        rank.say(Act(request=1, action="stop", tick=tick))
    assert [rank.code() for rank in told] == [210, 210]
    step = newest(directory).step
    assert step == tick - 1  # every finished step
    assert all(any(isinstance(m, Committed) and m.step == step for m in rank.messages) for rank in told)

    resumed = ranks.finish(hard(spec, directory, engine))
    assert resumed[0].events("restored")[0]["step"] == step
    assert_same_bits(directory, uninterrupted)


@pytest.mark.slow
def test_resume_of_three_ranks_sums_gradients_in_the_same_order(ranks: Ranks, spec: Spec, engine: str, tmp_path: Path) -> None:
    """With two ranks a + b = b + a hides the order in which a ring sums; with three it shows."""
    whole, split = tmp_path / "whole", tmp_path / "split"
    settings: dict[str, Any] = {"engine": engine, "world": 3}
    ranks.finish(spec(whole, **settings))
    shutil.copytree(whole, split)
    CheckpointStore(split).quarantine(newest(split), [])
    ranks.finish(spec(split, **settings))
    assert_same_bits(split, whole)


def test_flipped_bit_falls_back_to_the_commit_before(
    ranks: Ranks, spec: Spec, engine: str, uninterrupted: Path, tmp_path: Path
) -> None:
    directory = tmp_path / "lineage"
    shutil.copytree(uninterrupted, directory)
    store = CheckpointStore(directory)
    damaged = store.path(newest(directory), "model.safetensors")
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)

    leader, _ = ranks.finish(hard(spec, directory, engine))
    [quarantined] = leader.events("checkpoint_quarantined")
    assert "model.safetensors" in quarantined["reason"]
    assert leader.events("restored")[0]["step"] == STEPS - EVERY
    assert_same_bits(directory, uninterrupted)


def test_resume_at_another_world_size_sees_the_same_samples(ranks: Ranks, spec: Spec, engine: str, tmp_path: Path) -> None:
    whole, split = tmp_path / "whole", tmp_path / "split"
    settings: dict[str, Any] = {"engine": engine, "duration": {"steps": 8}}
    leader, _ = ranks.finish(spec(whole, **settings))
    shutil.copytree(whole, split)
    store = CheckpointStore(split)
    store.quarantine(newest(split), [])  # leaves step 4
    [alone] = ranks.finish(spec(split, world=1, batch={"micro": 16, "accumulation": 2}, **settings))

    assert alone.events("restored")[0]["step"] == 4
    expected, found = losses(leader), losses(alone)
    assert set(found) == {5, 6, 7, 8}
    assert newest(split).samples_consumed == newest(whole).samples_consumed
    # The same samples in another order of summation: fp32 rounding, amplified over four steps.
    assert found == pytest.approx({step: expected[step] for step in found}, rel=1e-4)


def test_accumulation_equals_a_larger_micro_batch(ranks: Ranks, spec: Spec, engine: str, tmp_path: Path) -> None:
    weights = []
    for micro, accumulation in ((16, 1), (4, 4)):
        directory = tmp_path / f"micro-{micro}"
        ranks.finish(spec(
            directory, engine=engine, batch={"micro": micro, "accumulation": accumulation}, duration={"steps": 4},
            optimizer={"kind": "sgd"}, learning_rate={"peak": 0.05, "schedule": "constant"},
        ))
        weights.append(load_file(CheckpointStore(directory).path(newest(directory), "model.safetensors")))
    for name, tensor in weights[0].items():
        torch.testing.assert_close(weights[1][name], tensor, rtol=1e-4, atol=1e-6, msg=name)


def test_non_finite_ends_with_diverged_on_every_rank(ranks: Ranks, spec: Spec, engine: str, tmp_path: Path) -> None:
    directory = tmp_path / "lineage"
    steep: dict[str, Any] = {"optimizer": {"kind": "sgd"}, "learning_rate": {"peak": 1e14, "schedule": "constant"}}
    leader, _ = ranks.finish(spec(directory, engine=engine, clip_norm=None, **steep), code=14)
    assert "not finite" in leader.events("rank_failed")[0]["reason"]
    for record in CheckpointStore(directory).records():
        weights = load_file(CheckpointStore(directory).path(record, "model.safetensors"))
        assert all(bool(torch.isfinite(tensor).all()) for tensor in weights.values())


def test_language_model_learns(ranks: Ranks, spec: Spec, engine: str, tmp_path: Path) -> None:
    model = {
        "architecture": "llama", "vocab_size": 256, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 2, "max_position_embeddings": 64, "tie_word_embeddings": True,
    }
    leader, _ = ranks.finish(spec(
        tmp_path / "lineage", engine=engine, task="causal-lm", model=model, batch={"micro": 8, "accumulation": 2},
        data={"source": "python-stdlib", "sequence_length": 64, "files": 20}, duration={"steps": 40}, log_every_steps=39,
        learning_rate={"peak": 0.01, "warmup_samples": 64}, evaluation={"every_steps": 20, "max_batches": 2},
    ))
    by_step = losses(leader)
    assert by_step[40] < 0.7 * by_step[1]
    assert len(leader.events("evaluated")) == 2


def test_batch_statistics_resume_too(ranks: Ranks, spec: Spec, engine: str, tmp_path: Path) -> None:
    model = {
        "architecture": "resnet", "num_channels": 1, "embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1],
        "layer_type": "basic", "image_size": 8, "num_labels": 10,
    }
    whole, split = tmp_path / "whole", tmp_path / "split"
    ranks.finish(spec(whole, engine=engine, model=model))
    shutil.copytree(whole, split)
    CheckpointStore(split).quarantine(newest(split), [])
    ranks.finish(spec(split, engine=engine, model=model))
    assert_same_bits(split, whole)
