"""Inputs that nobody would write: 750, and at night 1,250 others; ``python -m tests.fuzz 100000`` tries more."""

from __future__ import annotations

import pytest
from tests.fuzz.campaign import Campaign

SEED = 1
PARTS = 8
INPUTS = 2000


@pytest.mark.slow
@pytest.mark.parametrize("part", [
    *range(3), *(pytest.param(part, marks=pytest.mark.nightly) for part in range(3, PARTS)),
])
def test_every_input_is_refused_in_words_or_compiles_to_what_the_plan_says(part: int) -> None:
    campaign = Campaign(SEED)
    campaign.run(range(part * INPUTS // PARTS, (part + 1) * INPUTS // PARTS))
    assert not campaign.failures, "\n\n".join(campaign.failures)
    assert campaign.counts["compiled"] > INPUTS // PARTS // 10
    assert campaign.counts["refused"] > INPUTS // PARTS // 10
