"""The public manifests that are written as runs here, and what became of their leaves: one YAML file each.

``source`` and ``path`` say where a manifest stands; ``values`` fills its blanks; ``cluster`` is what its cluster has beside
``cluster.yaml``; ``run`` is the run. What is compared is the object of the target, or what ``kinds`` says: kind there, kind here.
``others`` are the kinds of the original that are not ours, with the reason.

``names``, ``elements``, ``changed``, ``override`` and ``missing`` are explained in :mod:`leaves`. Of a change, ``why`` is the
reason, and ``here`` the place of ours that has the same value, or places and their values. ``added`` is what this run has beyond
the original, and ``added.yaml`` what every run may have: reason, pattern of leaves as ``Kind/path``, and their value, ``any``, or
``as`` the place that they repeat. ``leaves`` counts what came of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainwright.reading.document import read_yaml

Data = dict[str, Any]
_HERE = Path(__file__).parent
NAMES = sorted(path.stem for path in _HERE.glob("*.yaml") if path.stem not in ("added", "cluster"))
CLUSTER: Data = read_yaml(_HERE / "cluster.yaml").data
ADDED: dict[str, Data] = read_yaml(_HERE / "added.yaml").data
"""Why the compiler adds what the original lacks -> pattern of leaves -> their value, or ``any``."""


def case(name: str) -> Data:
    return read_yaml(_HERE / f"{name}.yaml").data


def native(found: Mapping[Any, int]) -> float:
    """The share of leaves that stand in ours as they are, under our names; our laws count for nothing."""
    counted = sum(found.values()) - found.get("law", 0)
    return (found.get("same", 0) + found.get("renamed", 0)) / counted


def table() -> str:
    """For the page on them."""
    lines = ["| manifest | as a run | target | native | in another way | not at all |", "| --- | --- | --- | --- | --- | --- |"]
    for name in NAMES:
        told = case(name)
        found = told["leaves"]
        counted = sum(found.values()) - found.get("law", 0)
        link = f"[{told['path'].rpartition('/')[2]}](https://github.com/{told['source'].replace('@', '/blob/')}/{told['path']})"
        share = f"{round(native(found) * counted)} of {counted}"
        changed = [one["why"] for one in (told.get("changed") or {}).values()]
        run = f"[{told['run']['run']}](../tests/compiler/public/{name}.yaml)"
        cells = (link, run, told["run"]["target"], share, _reasons(changed), _reasons(_not_at_all(told)))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _not_at_all(told: Data) -> list[str]:
    others = [f"{kind}: {why}" for kind, why in (told.get("others") or {}).items()]
    return [*(told.get("missing") or {}).values(), *others]


def _reasons(stated: list[str]) -> str:
    return "; ".join(dict.fromkeys(stated)) or "–"


def additions_list() -> str:
    """What runs have beyond the originals, for the same page."""
    lines = [f"- {why[0].upper()}{why[1:]}." for why in ADDED]
    for name in NAMES:
        told = case(name)
        lines += [f"- `{told['path'].rpartition('/')[2]}`: {why}." for why in told.get("added") or {}]
    return "\n".join(lines)
