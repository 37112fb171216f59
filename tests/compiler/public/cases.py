"""The public manifests that are written as runs here, and what became of their leaves: one YAML file each.

``source`` and ``path`` say where a manifest stands; ``values`` fills its blanks; ``cluster`` is what its cluster has beside
``cluster.yaml``; ``run`` is the run. ``leaves`` counts what the account of an import says of it, and ``changed`` and ``left_out``
are its reasons.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.compiler.compiling import compile_data
from tests.compiler.findings.page import overlay

from trainwright.compile import CompiledRun
from trainwright.importing.accounting.account import Account, account, native
from trainwright.importing.accounting.matching import compiled_objects, foundation_objects
from trainwright.importing.accounting.rows import rows
from trainwright.reading.document import read_yaml

Data = dict[str, Any]
_HERE = Path(__file__).parent
NAMES = sorted(path.stem for path in _HERE.glob("*.yaml") if path.stem != "cluster")
CLUSTER: Data = read_yaml(_HERE / "cluster.yaml").data
MANIFESTS = os.environ.get("TRAINWRIGHT_MANIFESTS")
needs_originals = pytest.mark.skipif(not MANIFESTS, reason="TRAINWRIGHT_MANIFESTS names no folder of public manifests")


def case(name: str) -> Data:
    return read_yaml(_HERE / f"{name}.yaml").data


def original_text(name: str) -> str:
    """A public manifest, with the blanks of a template filled in."""
    text = (Path(str(MANIFESTS)) / f"{name}.yaml").read_text(encoding="utf-8")
    for blank, value in (case(name).get("values") or {}).items():
        text = text.replace(blank, value)
    return text


def originals(name: str) -> list[Data]:
    """Its objects."""
    return [one for one in yaml.safe_load_all(original_text(name)) if one is not None]


@cache
def compiled(name: str) -> CompiledRun:
    told = case(name)
    return compile_data(overlay(CLUSTER, told.get("cluster") or {}), {"team": "public", "cluster": "public", **told["run"]})


@cache
def accounts(name: str) -> list[Account]:
    """What became of each object of a public manifest."""
    run = compiled(name)
    return account(originals(name), compiled_objects(run), foundation_objects(run.cluster, "default"))


def counts(told: list[Account]) -> Counter[str]:
    return sum((one.counts for one in told), Counter[str]())


def table() -> str:
    """For the page on them."""
    lines = ["| manifest | as a run | target | native | in another way | not at all |", "| --- | --- | --- | --- | --- | --- |"]
    for name in NAMES:
        told = case(name)
        found = told["leaves"]
        counted = sum(found.values()) - found.get("listed", 0)
        link = f"[{told['path'].rpartition('/')[2]}](https://github.com/{told['source'].replace('@', '/blob/')}/{told['path']})"
        share = f"{round(native(found) * counted)} of {counted}"
        run = f"[{told['run']['run']}](../tests/compiler/public/{name}.yaml)"
        cells = (link, run, told["run"]["target"], share, _reasons(told.get("changed")), _reasons(told.get("left_out")))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _reasons(stated: list[str] | None) -> str:
    return "; ".join(dict.fromkeys(re.sub(r" \(/[^)]*\)$", "", why) for why in stated or ())) or "–"


def additions_list() -> str:
    """What runs have beyond the originals, for the same page."""
    return "\n".join(f"- {row['why'][0].upper()}{row['why'][1:]}." for row in rows()["adds"])


def never_table() -> str:
    """The closed list, for its page."""
    lines = ["| what | why |", "| --- | --- |"]
    lines += [f"| {_places(row['leaves'])} | {row['why']} |" for row in rows()["never"]]
    return "\n".join(lines)


def objects_table() -> str:
    """Objects that no run has, for the same page."""
    listed = [f"| {', '.join(row['kinds'])} | {row['why']} |" for row in rows()["objects"]]
    return "\n".join(["| kinds | why |", "| --- | --- |", *listed])


def _places(patterns: list[str]) -> str:
    return ", ".join(f"`{pattern.removeprefix('*/').removeprefix('/')}`" for pattern in patterns)
