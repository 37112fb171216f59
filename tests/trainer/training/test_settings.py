"""Settings that change how a step is computed and not what it computes: real ranks with each of them train as a textbook does."""

from __future__ import annotations

import shutil
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.trainer.data.tokenizer_files import LIBRARY
from tests.trainer.training.conformance import (
    Textbook,
    assert_close,
    assert_same_bits,
    forget_after,
    losses,
    newest,
    norms,
    textbook,
    weights,
)
from tests.trainer.training.conftest import Rank, Ranks, Spec

from trainwright_trainer.checkpoint import CheckpointStore, tensor_file
from trainwright_trainer.contract import Training
from trainwright_trainer.engine.sharded_state import WHOLE_FILE
from trainwright_trainer.engine.whole_state import UPDATE_FILE
from trainwright_trainer.model.build import build_model

pytestmark = pytest.mark.slow

LENGTH, VOCABULARY = 16, 256
STEPS, EVERY = 10, 6
BATCH = 16
"""Two micro batches of 4 on each of two ranks."""
NEAR, FAR = 2e-5, 5e-3
"""How far a weight may be from the textbook's after all steps where some part has 16 bits; fp32 is nearer."""
LLAMA = {
    "architecture": "llama", "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": LENGTH,
}


@pytest.fixture(scope="session")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Python source with a token for each byte."""
    path = tmp_path_factory.mktemp("text") / "text.bin"
    np.frombuffer((LIBRARY / "argparse.py").read_bytes(), np.uint8).astype("<u2").tofile(path)
    return path


def language_model(spec: Spec, directory: Path, engine: str, text: Path, **work: Any) -> dict[str, Any]:
    """Keywords replace keys of its ``work``. By SGD, whose steps are as long as its gradients: Adam would hide a wrong factor."""
    settings: dict[str, Any] = {
        "task": "causal-lm", "model": LLAMA, "batch": {"micro": 4, "accumulation": 2}, "duration": {"steps": STEPS},
        "data": {"source": "tokens", "path": str(text), "sequence_length": LENGTH, "vocabulary": VOCABULARY},
        "optimizer": {"kind": "sgd"}, "learning_rate": {"peak": 0.1, "schedule": "constant"},
        "evaluation": {"every_steps": 4, "max_batches": 1},
        "checkpoints": {"directory": str(directory), "every_steps": EVERY},
    }
    return spec(directory, engine=engine, **(settings | work))


def plainly(run: dict[str, Any], left_out: frozenset[int] = frozenset()) -> Textbook:
    return textbook(Training.model_validate(run["work"]), BATCH, STEPS, left_out)


def farthest(directory: Path, expected: Textbook) -> float:
    """How far a weight of the newest checkpoint is from the textbook's."""
    found = weights(directory)
    return max(float((found[name] - tensor.detach()).abs().max()) for name, tensor in expected.weights.items())


def sums_in_fewer_bits(ranks: Ranks, spec: Spec, engine: str, text: Path, directory: Path, reduction: str) -> None:
    """bf16 keeps 8 bits of a gradient and fp16 11 of one that is not tiny, and a step is a small part of a weight."""
    run = language_model(spec, directory, engine, text, gradient_reduction=reduction)
    leader, _ = ranks.finish(run)
    expected = plainly(run)
    assert losses(leader) == pytest.approx(expected.losses, rel=5e-4)
    assert norms(leader) == pytest.approx(expected.norms, rel=1e-2)
    assert NEAR < farthest(directory, expected) < FAR


@pytest.mark.parametrize("reduction", ["bf16", "fp16"])
def test_gradients_summed_in_fewer_bits(
    ranks: Ranks, spec: Spec, engine: str, text: Path, tmp_path: Path, reduction: str
) -> None:
    sums_in_fewer_bits(ranks, spec, engine, text, tmp_path / "lineage", reduction)


@pytest.mark.parametrize("setting", ["offload_weights", "reshard_after_forward"])
def test_where_fsdp2_keeps_weights_changes_nothing(
    ranks: Ranks, spec: Spec, text: Path, tmp_path: Path, setting: str
) -> None:
    """Each against its default. Evaluations and checkpoints in between find gathered weights that nobody has freed."""
    directory = tmp_path / "lineage"
    run = language_model(spec, directory, "fsdp2", text, fsdp2={setting: setting == "offload_weights"})
    leader, _ = ranks.finish(run)
    expected = plainly(run)
    assert len(leader.events("evaluated")) == 3
    assert losses(leader) == pytest.approx(expected.losses, rel=1e-4)
    assert_close(weights(directory), expected.weights, rtol=1e-4, atol=1e-6)
    forget_after(directory, EVERY)
    resumed, _ = ranks.finish(run)
    assert resumed.events("restored")[0]["step"] == EVERY
    assert_close(weights(directory), expected.weights, rtol=1e-4, atol=1e-6)


def overflow_and_resume(ranks: Ranks, spec: Spec, engine: str, text: Path, folder: Path) -> int:
    """From weights whose gradients are too steep for the first scale of the loss. Answers how many steps were left out."""
    whole, split = folder / "whole", folder / "split"
    settings = {"precision": "fp16", "initial_weights": str(folder / "weights")}
    run = language_model(spec, whole, engine, text, **settings)
    write_steep_weights(folder / "weights", Training.model_validate(run["work"]))
    leader, _ = ranks.finish(run)
    overflowed = frozenset(step for step, norm in norms(leader).items() if not isfinite(norm))
    assert overflowed
    assert max(overflowed) <= EVERY  # so that the scale is another one where the run is cut
    expected = plainly(run, left_out=overflowed)
    assert losses(leader) == pytest.approx(expected.losses, rel=5e-3)
    assert NEAR < farthest(whole, expected) < FAR

    shutil.copytree(whole, split)
    forget_after(split, EVERY)
    resumed, _ = ranks.finish(language_model(spec, split, engine, text, **settings))
    assert all(isfinite(norm) for norm in norms(resumed).values())
    assert_same_bits(split, whole)
    return len(overflowed)


def test_fp16_leaves_overflows_out_and_resumes_at_its_scale(
    ranks: Ranks, spec: Spec, engine: str, text: Path, tmp_path: Path
) -> None:
    overflows = overflow_and_resume(ranks, spec, engine, text, tmp_path)
    assert scale(tmp_path / "whole") == 2.0 ** (16 - overflows)


def write_steep_weights(folder: Path, training: Training) -> None:
    torch.manual_seed(0)
    model: Any = build_model(training.model, training.task, training.data)
    with torch.no_grad():
        model.get_output_embeddings().weight *= 30
    model.save_pretrained(folder)


def scale(directory: Path) -> float:
    """Of the losses after the newest checkpoint."""
    record = newest(directory)
    [file] = {UPDATE_FILE, WHOLE_FILE} & {file.name for file in record.files}
    tensors = tensor_file.decode(CheckpointStore(directory).path(record, file))
    [found] = [float(tensor) for name, tensor in tensors.items() if name.endswith("loss_scale")]
    return found


@pytest.fixture(scope="module")
def compile_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all engines, whose blocks compute the same: to compile it for each takes a minute."""
    return tmp_path_factory.mktemp("compiled")


@pytest.mark.nightly
def test_compiled_and_recomputed_blocks(
    ranks: Ranks, spec: Spec, engine: str, text: Path, compile_cache: Path, tmp_path: Path
) -> None:
    """At every change, ``tests/trainer/model`` compiles blocks in one process."""
    directory = tmp_path / "lineage"
    run = language_model(spec, directory, engine, text, compile=True, activation_checkpointing=True)
    both = ranks.finish(run, told={"TORCHINDUCTOR_CACHE_DIR": str(compile_cache)})
    assert any(path.is_file() for path in compile_cache.rglob("*")), "what a run's compile_cache is for"
    expected = plainly(run)
    assert all(graphs(rank) > 0 for rank in both)
    assert losses(both[0]) == pytest.approx(expected.losses, rel=1e-4)
    assert_close(weights(directory), expected.weights, rtol=1e-3, atol=1e-5)


def graphs(rank: Rank) -> int:
    """That ``torch.compile`` has made in it."""
    [event] = rank.events("weights_held")
    return int(event["graphs"])
