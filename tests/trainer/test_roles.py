"""The run of docs/roles.md in real processes: a data service, ranks that read from it, and an evaluator that must end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.compiler.findings.page import overlay
from tests.compiler.objects import written
from tests.compiler.rehearsal.command import play
from tests.compiler.targets import CASES, INSTALLED
from tests.docs.test_snippets import Snippet, snippets
from tests.pages import DOCS

APP = Path(__file__).with_name("roles")
PLAYED = [name for name, case in CASES.items() if case.orders_start]
pytestmark = pytest.mark.slow


def manifests(target: str) -> list[dict[str, Any]]:
    """Without GPUs; on a Volcano Job both further roles must end, or none."""
    (shown,) = [one for one in snippets(DOCS / "roles.md") if one.run["roles"].get("evaluator")][:1]
    small = {"target": target, "topology": {"gpus_per_node": 0, "processes_per_node": 1}, "gang": False}
    roles = {"evaluator": {"gpus": 0, **({"must_end": False} if target == "volcano-job" else {})}}
    scheduling = {"scheduling": {"gang": "volcano", "version": "1.15"}} if target == "volcano-job" else {}
    run, cluster = overlay(shown.run, small | {"roles": roles}), overlay(shown.cluster, {"operators": INSTALLED, **scheduling})
    return list(yaml.safe_load_all(written(Snippet(shown.block, run, cluster).compiled().manifests)))


@pytest.mark.parametrize("target", PLAYED)
def test_they_find_each_other_and_the_service_is_ready_first(target: str, tmp_path: Path) -> None:
    said = play(manifests(target), tmp_path, APP)
    text = "\n".join(said)
    assert "rank 0 has 45\n" in text
    assert "rank 1 has 45\n" in text
    if target != "volcano-job":
        assert "the total is 45; rank 0 was at 127." in text
