"""What every engine must hold, shown on whole runs of real processes: that it trains, and that a resume changes nothing.

``test_agreement.py``, ``test_resharding.py`` and ``test_kills.py`` belong to the same suite; ``conftest.py`` lists the engines.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.trainer.training.conformance import (
    EVERY,
    SLOWED,
    STEPS,
    assert_close,
    assert_same_bits,
    forget_after,
    hard,
    losses,
    newest,
    norms,
    textbook,
    weights,
)
from tests.trainer.training.conftest import Ranks, Spec

from trainwright_trainer.checkpoint import CheckpointStore, read_complete
from trainwright_trainer.contract import Training
from trainwright_trainer.rank.messages import Act, At, Committed, Measured, Pause


@pytest.mark.communication
def test_equals_plain_training_in_one_process(ranks: Ranks, spec: Spec, engine: str, tmp_path: Path) -> None:
    run = spec(tmp_path / "lineage", engine=engine, batch={"micro": 8, "accumulation": 2}, duration={"steps": 8})
    leader, _ = ranks.finish(run)
    assert losses(leader) == pytest.approx(textbook(Training.model_validate(run["work"]), 32, 8).losses, rel=1e-4)


@pytest.mark.communication
def test_clips_the_norm_over_all_ranks(ranks: Ranks, spec: Spec, engine: str, tmp_path: Path) -> None:
    """By SGD, whose steps are as long as its gradients: Adam would hide the difference."""
    directory, clip = tmp_path / "lineage", 0.1
    run = spec(
        directory, engine=engine, batch={"micro": 8, "accumulation": 2}, duration={"steps": 6}, clip_norm=clip,
        optimizer={"kind": "sgd"}, learning_rate={"peak": 0.5, "schedule": "constant"},
    )
    leader, _ = ranks.finish(run)
    work = Training.model_validate(run["work"])
    clipped, free = textbook(work, 32, 6), textbook(work.model_copy(update={"clip_norm": None}), 32, 6)
    found = weights(directory)
    assert min(clipped.norms.values()) > 5 * clip  # so every step was clipped
    assert norms(leader) == pytest.approx(clipped.norms, rel=1e-3)
    assert losses(leader) == pytest.approx(clipped.losses, rel=1e-4)
    assert_close(found, clipped.weights, rtol=1e-3, atol=1e-5)
    far = [name for name, tensor in free.weights.items() if float((found[name] - tensor).detach().abs().max()) > 0.01]
    assert len(far) > len(found) / 2  # and without clipping it would be another model


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


def test_what_was_evaluated_is_what_was_saved(ranks: Ranks, spec: Spec, engine: str, tmp_path: Path) -> None:
    """The last save comes after the last evaluation, without a step in between."""
    settings: dict[str, Any] = {"engine": engine, "duration": {"steps": 2}}
    evaluated = []
    for _ in range(2):  # the second run finds nothing left to train
        leader, _ = ranks.finish(spec(tmp_path / "lineage", **settings))
        evaluated += [event["loss"] for event in leader.events("evaluated")]
    assert not leader.events("step")
    assert evaluated[0] == evaluated[1]


@pytest.mark.communication
def test_resume_equals_uninterrupted(ranks: Ranks, spec: Spec, engine: str, uninterrupted: Path, tmp_path: Path) -> None:
    directory = tmp_path / "lineage"
    told = ranks.start(hard(spec, directory, engine), linked=True, told=SLOWED)
    told[0].wait_for(lambda message: isinstance(message, Measured) and message.values.get("trainwright_step", 0) >= 3)
    ticks = []
    for rank in told[::-1]:  # they hear of it one after the other, each somewhere else
        rank.say(Pause(request=1))
        answer = rank.wait_for(lambda message: isinstance(message, At))
        assert isinstance(answer, At)
        assert answer.tick is not None, f"rank {rank.number} does not train any more:\n{rank.output.read_text()}"
        ticks.append(answer.tick)
    tick = max(ticks) + 1
    for rank in told:
        rank.say(Act(request=1, action="stop", tick=tick))
    assert [rank.code() for rank in told] == [210, 210]
    step = newest(directory).step
    assert step == tick - 1  # every finished step
    assert all(any(isinstance(m, Committed) and m.step == step for m in rank.messages) for rank in told)

    resumed = ranks.finish(hard(spec, directory, engine))
    [restored] = resumed[0].events("restored")
    assert restored["step"] == step
    assert restored["seconds"] > 0
    assert_same_bits(directory, uninterrupted)


@pytest.mark.once
@pytest.mark.slow
def test_resume_of_three_ranks_sums_gradients_in_the_same_order(ranks: Ranks, spec: Spec, engine: str, tmp_path: Path) -> None:
    """With two ranks a + b = b + a hides the order in which a ring sums; with three it shows."""
    whole, split = tmp_path / "whole", tmp_path / "split"
    settings: dict[str, Any] = {"engine": engine, "world": 3}
    ranks.finish(spec(whole, **settings))
    shutil.copytree(whole, split)
    forget_after(split, 8)
    ranks.finish(spec(split, **settings))
    assert_same_bits(split, whole)


def test_flipped_bit_falls_back_to_the_commit_before(
    ranks: Ranks, spec: Spec, engine: str, uninterrupted: Path, tmp_path: Path
) -> None:
    directory = tmp_path / "lineage"
    shutil.copytree(uninterrupted, directory)
    store = CheckpointStore(directory)
    largest = max(newest(directory).files, key=lambda file: file.size).name
    damaged = store.path(newest(directory), largest)
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)

    leader, _ = ranks.finish(hard(spec, directory, engine))
    [quarantined] = leader.events("checkpoint_quarantined")
    assert largest in quarantined["reason"]
    assert leader.events("restored")[0]["step"] == STEPS - EVERY
    assert_same_bits(directory, uninterrupted)


def test_accumulation_equals_a_larger_micro_batch(ranks: Ranks, spec: Spec, engine: str, tmp_path: Path) -> None:
    found = []
    for micro, accumulation in ((16, 1), (4, 4)):
        directory = tmp_path / f"micro-{micro}"
        ranks.finish(spec(
            directory, engine=engine, batch={"micro": micro, "accumulation": accumulation}, duration={"steps": 4},
            optimizer={"kind": "sgd"}, learning_rate={"peak": 0.05, "schedule": "constant"},
        ))
        found.append(weights(directory))
    assert_close(found[1], found[0], rtol=1e-4, atol=1e-6)


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
    settings: dict[str, Any] = {"engine": engine, "model": model, "evaluation": {}}
    whole, split = tmp_path / "whole", tmp_path / "split"
    leader, _ = ranks.finish(spec(whole, **settings))
    shutil.copytree(whole, split)
    forget_after(split, 8)
    ranks.finish(spec(split, **settings))
    assert_same_bits(split, whole)
    # One rank has nothing left to train, and evaluates with the statistics that two have gathered.
    [alone] = ranks.finish(spec(split, world=1, **settings))
    assert not alone.events("step")
    assert alone.events("evaluated")[0]["loss"] == pytest.approx(leader.events("evaluated")[0]["loss"], rel=1e-4)
