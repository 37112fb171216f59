"""DeepSpeed's own launcher starts the ranks of two pods without ssh, from the YAML of its row in docs/launchers.md."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from tests.engines.processes import ROOT
from tests.engines.rehearsed import Rehearsal

IMAGE = ROOT / "tests" / "trainer" / "launchers" / "sockets"
pytestmark = pytest.mark.slow


def test_ranks_meet(tmp_path: Path) -> None:
    rehearsal = Rehearsal(Path(__file__).with_name("launcher.yaml"), tmp_path)
    shutil.copytree(IMAGE, rehearsal.at("/app"))
    rehearsal.play()
    ranks = [json.loads(line) for line in sorted(re.findall(r'{"rank".*', rehearsal.logs))]
    assert ranks == [{"rank": rank, "local": rank % 2, "of": 4, "sum": 10} for rank in range(4)]
