"""Which tests of the torch engines' conformance suite each engine takes, for the conftests."""

from __future__ import annotations

from collections.abc import Mapping

OF_WHOLE_WEIGHTS = "all_ranks_hold"
"""For engines whose every rank holds all weights: others would hold it whatever they do."""
ONLY: Mapping[str, tuple[str, ...]] = {
    "zero-2": ("equals_plain_training", "clips_the_norm", "same_weights", "resume_equals_uninterrupted", "2 to 4"),
}
"""Stage 2 is stage 1 with other communication: the tests that would notice."""
NOT: Mapping[str, tuple[str, ...]] = {
    "fsdp2": (OF_WHOLE_WEIGHTS,),
    "zero-1": ("three_kills", "three_ranks", "2 to 4"),  # long ones, which the other stages take
    "zero-3": (OF_WHOLE_WEIGHTS,),
}


def is_taken(name: str) -> bool:
    """Whether a test runs, by its name with its parameters, of which one is the engine: ``test_it[zero-2-2 to 4]``."""
    left_out = (part for engine, parts in NOT.items() if engine in name for part in parts)
    wanted = [parts for engine, parts in ONLY.items() if engine in name]
    return not any(part in name for part in left_out) and all(any(part in name for part in parts) for parts in wanted)
