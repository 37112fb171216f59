"""Which tests of the torch engines' conformance suite each engine takes, for the conftests."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

LEAVES_OUT: Mapping[str, str] = {
    "fsdp2": "whole_weights",
    "zero-1": "once",  # the other stages take the long ones
    "zero-3": "whole_weights",
}
"""Engine -> the mark of the tests that it does not take: others would hold its every rank to all weights, whatever it does."""
TAKES_ONLY: Mapping[str, str] = {"zero-2": "communication"}
"""Stage 2 is stage 1 with other communication: the tests that would notice."""


def is_taken(item: pytest.Item) -> bool:
    """Whether a test runs, by its engine and its marks."""
    engine = item.callspec.params.get("engine") if isinstance(item, pytest.Function) and hasattr(item, "callspec") else None
    marks = {mark.name for mark in item.iter_markers()}
    return LEAVES_OUT.get(str(engine)) not in marks and TAKES_ONLY.get(str(engine), "") in {"", *marks}
