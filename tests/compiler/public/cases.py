"""The public manifests that are written as runs here, and what became of their leaves: one YAML file each.

``source`` and ``path`` say where a manifest stands; ``values`` fills its blanks; ``cluster`` is what its cluster has beside
``cluster.yaml``; ``run`` is the run. ``names``, ``changed``, ``override`` and ``missing`` are explained in :mod:`leaves`, and
``leaves`` counts what came of it. What is compared is the object of the target, or the ``kinds`` ``theirs`` and ``ours``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainwright.reading.document import read_yaml

Data = dict[str, Any]
_HERE = Path(__file__).parent
NAMES = sorted(path.stem for path in _HERE.glob("*.yaml") if path.stem != "cluster")
CLUSTER: Data = read_yaml(_HERE / "cluster.yaml").data


def case(name: str) -> Data:
    return read_yaml(_HERE / f"{name}.yaml").data


def native(found: Mapping[Any, int]) -> float:
    """The share of leaves that stand in ours as they are, under our names; our laws count for nothing."""
    counted = sum(found.values()) - found.get("law", 0)
    return (found.get("same", 0) + found.get("renamed", 0)) / counted


def table() -> str:
    """For the page on them."""
    lines = ["| manifest | target | native | in another way | not at all |", "| --- | --- | --- | --- | --- |"]
    for name in NAMES:
        told = case(name)
        found = told["leaves"]
        counted = sum(found.values()) - found.get("law", 0)
        link = f"[{told['path'].rpartition('/')[2]}](https://github.com/{told['source'].replace('@', '/blob/')}/{told['path']})"
        share = f"{round(native(found) * counted)} of {counted}"
        reasons = ["; ".join(dict.fromkeys((told.get(fate) or {}).values())) or "–" for fate in ("changed", "missing")]
        lines.append(f"| {link} | {told['run']['target']} | {share} | {' | '.join(reasons)} |")
    return "\n".join(lines)
