"""fp16 by DeepSpeed, which scales the losses itself."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.engines.deepspeed.conftest import configuration
from tests.trainer.training.conftest import Ranks, Spec
from tests.trainer.training.test_settings import overflow_and_resume, text  # noqa: F401  a fixture

from trainwright_trainer.contract.failures import InvalidRunError
from trainwright_trainer.contract.training import AdamW
from trainwright_trainer.engine.deepspeed import DeepSpeedEngine


@pytest.mark.slow
@pytest.mark.skipif(not torch.ops.mkldnn._is_mkldnn_fp16_supported(), reason="needs AVX512-FP16: other CPUs are refused")
def test_fp16_leaves_overflows_out_and_resumes(
    ranks: Ranks, spec: Spec, engine: str, text: Path, tmp_path: Path  # noqa: F811
) -> None:
    """At its scale: with the first one, steps after the resume would overflow again."""
    overflow_and_resume(ranks, spec, engine, text, tmp_path)


def test_a_processor_that_cannot_is_refused_in_a_sentence(
    plain_spec: Spec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DS_ACCELERATOR", "cpu")
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_fp16_supported", lambda: False)
    config = tmp_path / "ds_config.json"
    config.write_text(json.dumps(configuration(plain_spec(tmp_path, precision="fp16")["work"], 2, stage=2)))
    world: Any = SimpleNamespace(device=torch.device("cpu"), place=SimpleNamespace(world_size=2))
    with pytest.raises(InvalidRunError, match="lacks AVX512-FP16; set precision to bf16 or fp32, and compile the run again"):
        DeepSpeedEngine(world, "fp16", config, AdamW(kind="adamw"))
