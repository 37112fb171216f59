"""Every snippet of a run or a profile compiles, and what a page says of the outcome is what comes out.

- ``yaml profile NAME``: changes to a profile of ``charts/clusters``, for the runs up to the next heading.
- ``yaml run NAME``: what a run says, beside what every run has, on that cluster.
- ``yaml emits KIND``: part of the object of that kind that the run above makes.
- ``text plan``: lines of the plan of the run above.
- ``yaml finds CODE``: as ``run``, and the finding that comes of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from tests.compiler.findings.page import overlay
from tests.pages import DOCS, FENCE, ROOT, Block

from trainwright.cluster import Cluster
from trainwright.compile import CompiledRun, compile_run
from trainwright.findings import CompileError, Severity
from trainwright.reading import validate_data
from trainwright.reading.document import read_yaml
from trainwright.report.plan import plan_lines
from trainwright.run import Run

TODAY = date(2026, 7, 1)
Data = dict[str, Any]


def base(cluster: Data) -> Data:
    """What every run has, for the first namespace of a cluster, and where its checkpoints go, also if its program saves them."""
    namespace, place = next(iter(cluster["namespaces"].items()))
    claim = next(name for name, claim in place["claims"].items() if "checkpoints" in name and claim.get("managed", True))
    return {
        "run": "example",
        "team": "research",
        "namespace": namespace,
        "cluster": cluster["cluster"],
        "image": "registry.example.com/trainwright/trainer@sha256:" + "b" * 64,
        "topology": {"kind": "ddp", "nodes": 4, "gpus_per_node": 8},
        "workload": {"kind": "script", "command": ["python", "/app/train.py"]},
        "mounts": {"/checkpoints": {"claim": claim}},
        "security": {"user": 1000},
    }


@dataclass(frozen=True, slots=True)
class Snippet:
    """A block, the run that it is or speaks of, and the profile that holds there."""

    block: Block
    run: Data
    cluster: Data

    def compiled(self) -> CompiledRun:
        """The run; raises where it does not compile."""
        cluster, data = validate_data(Cluster, self.cluster, None, {}), overlay(base(self.cluster), self.run)
        if data["workload"]["kind"] in ("script", "command"):
            data["checkpoints"] = {"by": "own"} | data.get("checkpoints", {})
        return compile_run(validate_data(Run, data, None, {}), cluster, today=TODAY)


def snippets(page: Path) -> Iterator[Snippet]:
    """Of one page, in order."""
    changes: Data = {}
    current: Snippet | None = None
    text = page.read_text(encoding="utf-8")
    headings = [match.start() for match in re.finditer(r"^#{2,3} ", text, re.MULTILINE)]
    last = 0
    for match in FENCE.finditer(text):
        if any(last < heading < match.start() for heading in headings):
            changes, current = {}, None
        last = match.start()
        verb, _, name = (match["what"] or "").partition(" ")
        block = Block(page, match["language"], match["what"] or "", match["body"])
        if verb == "profile":
            changes = {name: overlay(changes.get(name, {}), block.data)}
        elif verb in ("run", "finds"):
            where = name.split()[0]
            profile = read_yaml(ROOT / "charts" / "clusters" / f"{where}.yaml").data
            current = Snippet(block, block.data, overlay(profile, changes.get(where, {})))
            yield current
        elif verb == "emits" or (block.language, block.what) == ("text", "plan"):
            assert current is not None, f"{block.id} follows no run"
            yield replace(current, block=block)


def of(verb: str) -> pytest.MarkDecorator:
    found = [snippet for page in sorted(DOCS.glob("*.md")) for snippet in snippets(page) if snippet.block.what.startswith(verb)]
    return pytest.mark.parametrize("snippet", found, ids=[f"{snippet.block.id} {number}" for number, snippet in enumerate(found)])


@pytest.mark.parametrize("name", ["topologies", "scheduling", "clusters", "targets", "gitops"])
def test_every_snippet_says_what_it_is(name: str) -> None:
    for match in FENCE.finditer((DOCS / f"{name}.md").read_text(encoding="utf-8")):
        assert re.fullmatch(r"\S+/\S+|plan|(profile|run|emits) \S+|finds \S+ TW\d+", match["what"] or ""), match[0]


@of("run")
def test_a_run_compiles(snippet: Snippet) -> None:
    assert [finding for finding in snippet.compiled().findings if finding.severity is not Severity.INFO] == []


@of("finds")
def test_a_run_has_its_finding(snippet: Snippet) -> None:
    code = snippet.block.what.split()[2]
    try:
        found = snippet.compiled().findings
    except CompileError as error:
        found = error.findings
    assert {finding.code for finding in found if finding.severity is not Severity.INFO} == {code}


@of("emits")
def test_an_object_is_as_the_page_shows_it(snippet: Snippet) -> None:
    kind = snippet.block.what.split()[1]
    manifests = [manifest for manifest in snippet.compiled().manifests if manifest["kind"] == kind]
    problems = [list(differences(named(snippet.block.data, manifest), manifest, kind)) for manifest in manifests]
    assert [] in problems, min(problems, key=len, default=f"there is no {kind}")


@of("plan")
def test_a_plan_is_as_the_page_shows_it(snippet: Snippet) -> None:
    lines = [line.strip() for line in plan_lines(snippet.compiled())]
    for line in snippet.block.body.splitlines():
        assert line in lines, "\n".join(lines)


def named(part: Any, manifest: Data) -> Any:
    """With the real hash where the page says ``example-…``."""
    hashed = re.match(r"example-\w{8}", str(manifest["metadata"]["name"]))
    if isinstance(part, dict):
        return {key: named(value, manifest) for key, value in part.items()}
    if isinstance(part, list):
        return [named(value, manifest) for value in part]
    return part.replace("example-…", hashed[0]) if isinstance(part, str) and hashed else part


def differences(part: Any, whole: Any, place: str) -> Iterator[str]:
    """What a page shows and the object does not have; an item of a list may be any of its items."""
    if isinstance(part, dict) and isinstance(whole, dict):
        for key, value in part.items():
            if key in whole:
                yield from differences(value, whole[key], f"{place}/{key}")
            else:
                yield f"{place} has no {key}"
    elif isinstance(part, list) and isinstance(whole, list):
        for index, item in enumerate(part):
            found = [list(differences(item, other, f"{place}/{index}")) for other in whole]
            if [] not in found:
                yield from min(found, key=len, default=[f"{place} is empty"])
    elif part != whole:
        yield f"{place} is {whole!r}, not {part!r}"
