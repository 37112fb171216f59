"""What the benchmark of recovery holds runs to."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from pathlib import Path

import pytest
from benchmarks.chaos_run import BrokenPromiseError
from benchmarks.recovery import QUIET_SECONDS, Incident, Tally, judge, measure


def tally(own: Sequence[float], restore: float = 0.0, cold: float = 20.0) -> Tally:
    return Tally([Incident("rank killed", seconds, restore, 0, 3) for seconds in own], cold)


@pytest.mark.parametrize(("found", "most", "broken"), [
    (tally([9.0] * 20), inf, ""),
    (tally([11.0] * 20), inf, "an incident of a rank costs 11.00 s, less the restore, and 10.00 s are promised"),
    (tally([11.0] * 20, restore=2.0), inf, ""),
    (tally([9.0] * 20), QUIET_SECONDS, "costs 9.00 s, less the restore, and 3.00 s are promised"),
    (tally([2.0] * 10 + [5.0] * 10), inf, "rank killed: the last 10 incidents cost 5.00 s, and the first 2.00 s"),
    (tally([2.0] * 9 + [5.0] * 10), inf, ""),
    (Tally([Incident("pod killed", 30.0, 0.0, 10, 3)], 20.0), inf, ""),
])  # fmt: skip
def test_incidents_of_ranks_are_held_to_what_is_promised(found: Tally, most: float, broken: str) -> None:
    if not broken:
        judge(found, most)
        return
    with pytest.raises(BrokenPromiseError, match=broken.replace(".", r"\.")):
        judge(found, most)


@pytest.mark.nightly
@pytest.mark.slow
def test_ranks_that_are_killed_and_hang_cost_no_bit(tmp_path: Path) -> None:
    said: list[str] = []
    found = measure("ddp", 1, 2, 1, 100, tmp_path / "runs", ["rank killed", "rank hung"], said.append)
    assert {one.kind for one in found.incidents} == {"rank killed", "rank hung"}, said
    assert all(0 < one.restore_seconds < one.own_seconds for one in found.incidents), said
