from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.chaos import Chaos


@pytest.mark.nightly
@pytest.mark.slow
def test_a_few_faults_cost_no_commit_and_no_bit(tmp_path: Path) -> None:
    names = ("SIGSTOP of a rank", "full disk")  # of those that end no attempt: each start imports torch twice
    said: list[str] = []
    tally = Chaos("ddp", 1, tmp_path, said.append).strike(len(names), names)
    assert tally.faults == dict.fromkeys(names, 1), said
    assert tally.runs == 1, said
