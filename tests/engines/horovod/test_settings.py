"""fp16 under Horovod, whose compression knows no bf16: of the passes, and of the sums."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.trainer.training.conftest import Ranks, Spec
from tests.trainer.training.test_settings import (  # noqa: F401  collected here
    sums_in_fewer_bits,
    test_fp16_leaves_overflows_out_and_resumes_at_its_scale,
    text,
)

pytestmark = pytest.mark.slow


@pytest.mark.nightly
def test_gradients_summed_in_fp16(ranks: Ranks, spec: Spec, engine: str, text: Path, tmp_path: Path) -> None:  # noqa: F811
    sums_in_fewer_bits(ranks, spec, engine, text, tmp_path / "lineage", "fp16")
