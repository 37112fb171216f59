"""Checkpoints of ZeRO-3, spread over two ranks: what ``from_pretrained`` gives, and what DeepSpeed cannot convert."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.trainer.training.conformance import assert_close, weights
from tests.trainer.training.conftest import Ranks, Spec
from transformers import LlamaForCausalLM

from trainwright_trainer.commands.export.run import Request, export

WORK: dict[str, Any] = {
    "task": "causal-lm", "batch": {"micro": 4}, "duration": {"steps": 3}, "optimizer": {"kind": "sgd"},
    "learning_rate": {"peak": 0.1, "schedule": "constant"},
    "model": {
        "architecture": "llama", "vocab_size": 256, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 2, "max_position_embeddings": 64, "tie_word_embeddings": True,
    },
    "data": {"source": "python-stdlib", "sequence_length": 64, "files": 10},
}


@pytest.fixture(scope="module")
def trained(session_ranks: Ranks, spec: Spec, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("trained") / "zero-3"
    session_ranks.finish(spec(directory, engine="zero-3", **WORK))
    return directory


def test_transformers_loads_what_zero_3_wrote(ranks: Ranks, plain_spec: Spec, trained: Path, tmp_path: Path) -> None:
    ranks.finish(plain_spec(tmp_path / "ddp", engine="ddp", **WORK))
    done = export(Request(str(trained), tmp_path / "out", Path("/none")))
    assert (done.step, done.architecture) == (3, "LlamaForCausalLM")
    loaded: Any = LlamaForCausalLM.from_pretrained(tmp_path / "out", output_loading_info=True)
    model, report = loaded
    assert not any(report.values())
    assert model.lm_head.weight is model.model.embed_tokens.weight
    found = {name: parameter.detach() for name, parameter in model.named_parameters()}
    held = weights(trained)
    assert held.keys() == found.keys()
    assert all(torch.equal(found[name], held[name]) for name in found)
    assert_close(found, weights(tmp_path / "ddp"), rtol=1e-4, atol=1e-6)


def test_state_that_deepspeed_does_not_convert(ranks: Ranks, spec: Spec, trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained, tmp_path / "zero-3")
    [alone] = ranks.finish(spec(tmp_path / "zero-3", engine="zero-3", world=1, **WORK), code=10)
    [event] = alone.events("rank_failed")
    assert event["reason"].startswith(
        "the checkpoint of 2 ranks cannot be converted for 1: DeepSpeed's converter knows the state of Adam only; "
    )
