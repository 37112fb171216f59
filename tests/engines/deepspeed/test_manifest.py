"""The Indexed Job in dist/ that trains with DeepSpeed does so from its YAML, with its own ds_config.json."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.engines.manifest_data import write_tokens, write_weights
from tests.engines.manifest_run import Playing

from trainwright_trainer.contract import Training

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_a_job_with_deepspeed_trains(tmp_path: Path) -> None:
    with Playing("h100-ib/training/runs/llama-finetune", tmp_path) as run:
        assert isinstance(run.spec.work, Training)
        write_tokens(run.at("/data/sft"), vocabulary=400)
        write_weights(run.at("/data/models/llama-3.1-70b"), run.spec.work)
        run.train()
