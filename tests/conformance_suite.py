"""Which tests of the torch engines' conformance suite each engine takes, for the conftests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

LEAVES_OUT: Mapping[str, str] = {
    "fsdp2": "whole_weights",
    "zero-1": "once",  # the other stages take the long ones
    "zero-3": "whole_weights",
}
"""Engine -> the mark of the tests that it does not take: others would hold its every rank to all weights, whatever it does."""
TAKES_ONLY: Mapping[str, str] = {"zero-2": "communication"}
"""Stage 2 is stage 1 with other communication: the tests that would notice."""


LEFT_TO_THE_NIGHT: Mapping[str, frozenset[str]] = {
    "ddp": frozenset({
        "test_steps_without_targets", "test_resume_at_another_world_size_sees_the_same_samples",
        "test_a_slow_rank_is_told_from_those_that_wait", "test_resume_of_three_ranks_sums_gradients_in_the_same_order",
    }),
    "fsdp2": frozenset({
        "test_fp16_leaves_overflows_out_and_resumes_at_its_scale",
        "test_three_kills_lose_nothing_that_was_committed", "test_batch_statistics_resume_too", "test_language_model_learns",
        "test_flipped_bit_falls_back_to_the_commit_before",
    }),
    "horovod": frozenset({
        "test_three_kills_lose_nothing_that_was_committed", "test_batch_statistics_resume_too", "test_language_model_learns",
        "test_flipped_bit_falls_back_to_the_commit_before",
    }),
    "zero-3": frozenset({
        "test_three_kills_lose_nothing_that_was_committed", "test_batch_statistics_resume_too", "test_language_model_learns",
        "test_flipped_bit_falls_back_to_the_commit_before",
    }),
}  # fmt: skip
"""Engine -> its long tests that another engine runs at every change."""


def engine_of(item: pytest.Item) -> str:
    """Empty for a test of none."""
    if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
        return str(item.callspec.params.get("engine", ""))
    return ""


def leave_to_the_night(items: Iterable[pytest.Item]) -> None:
    for item in items:
        if item.name.partition("[")[0] in LEFT_TO_THE_NIGHT.get(engine_of(item), ()):
            item.add_marker(pytest.mark.nightly)


def is_taken(item: pytest.Item) -> bool:
    """Whether a test runs, by its engine and its marks."""
    engine = engine_of(item)
    marks = {mark.name for mark in item.iter_markers()}
    return LEAVES_OUT.get(engine) not in marks and TAKES_ONLY.get(engine, "") in {"", *marks}
