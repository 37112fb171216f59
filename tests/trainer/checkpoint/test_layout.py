"""Names are parsed back exactly, and none leads out of the directory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright_trainer.checkpoint.data_file import checked_file_name
from trainwright_trainer.checkpoint.volume import CheckpointName


@given(step=st.integers(0, 2**53), attempt=st.from_regex(r"[A-Za-z0-9_\-]{1,64}", fullmatch=True))
def test_names_are_parsed_back(step: int, attempt: str) -> None:
    name = CheckpointName(step, attempt)
    assert CheckpointName.parse(str(name)) == name


@pytest.mark.parametrize(
    "text", ["step-1", "step-01.a", "step--1.a", "step-1.a.bad", "step-1.a/b", "step-9999999999999999.a", "step-1.a\n", "", "x"]
)
def test_other_texts_are_no_names(text: str) -> None:
    assert CheckpointName.parse(text) is None


@pytest.mark.parametrize(
    ("step", "attempt"), [(-1, "a"), (2**53 + 1, "a"), (1, ""), (1, "a/b"), (1, ".."), (1, "a.b"), (1, "a\n")]
)
def test_bad_steps_and_attempts_are_refused(step: int, attempt: str) -> None:
    with pytest.raises(ValueError, match=r"^(step|attempt)"):
        CheckpointName(step, attempt)


@pytest.mark.parametrize("name", ["model.safetensors", ".metadata", "__0_0.distcp", "global_step/zero_pp_rank_0.bin", "a/b/c"])
def test_file_names(name: str) -> None:
    assert checked_file_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "", ".", "..", "../x", "/etc/passwd", "a/../b", "a//b", "a/", "a/.", "a\\b", "a\0b", "a\n", "ä", "a" * 256,
        "a/" * 600 + "a",
    ],
)
def test_names_that_lead_elsewhere_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not a checkpoint file name"):
        checked_file_name(name)
