"""The Indexed Jobs in dist/ that train with DeepSpeed do so from their YAML, with their own settings."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.engines.manifest_data import write_tokens, write_weights
from tests.engines.rehearsed import Rehearsal

pytestmark = [pytest.mark.rehearsal, pytest.mark.nightly, pytest.mark.slow]


def test_a_job_with_deepspeed_trains(tmp_path: Path) -> None:
    rehearsal = Rehearsal("h100-ib/training/runs/llama-finetune", tmp_path)
    write_tokens(rehearsal.at("/data/sft"), vocabulary=32000, token_bytes=4)
    write_weights(rehearsal.at("/data/models/llama-3.1-70b"), rehearsal.work)
    rehearsal.play()
