"""DeepSpeed's own launcher starts the ranks of two pods without ssh, from the YAML of its row in docs/launchers.md."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from tests.engines.launched import play
from tests.engines.processes import ROOT

IMAGE = ROOT / "tests" / "trainer" / "launchers" / "sockets"
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_ranks_meet(tmp_path: Path) -> None:
    documents = list(yaml.safe_load_all(Path(__file__).with_name("launcher.yaml").read_text(encoding="utf-8")))
    said = play(documents, tmp_path, IMAGE)
    ranks = [json.loads(line) for pod in said for line in sorted(re.findall(r'{"rank".*', pod))]
    assert ranks == [{"rank": rank, "local": rank % 2, "of": 4, "sum": 10} for rank in range(4)]
