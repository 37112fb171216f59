"""What pods want of each other: one place for all and no two on a node, which is ``placement``, and what else they say of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from trainwright.findings.locate import at
from trainwright.importing.accounting.pairing import leaves
from trainwright.manifest.kueue import GROUP
from trainwright.manifest.labels import is_the_plans
from trainwright.manifest.template.scheduling import HOST, PREFERRED, REQUIRED, WEIGHT
from trainwright.objects.fields import items, mapping, text, texts
from trainwright.objects.metadata import not_qualified
from trainwright.objects.selectors import selects
from trainwright.operators.said import scalar

Tree = Mapping[str, Any]

PLACE = {f"{GROUP}/podset-preferred-topology": False, f"{GROUP}/podset-required-topology": True}
"""Annotation by which a queue finds the place -> whether there must be one."""
_OF_ONE_OBJECT = ("job-name", "jobset-name")
"""Ends of labels by which controllers mark the pods of one object; their value is its name."""


class Level(NamedTuple):
    """One place for all pods with ranks."""

    label: str
    """Of nodes, whose equal values mean the same place."""
    required: bool
    """Whether pods wait rather than be apart."""
    of_queue: bool = False
    """Whether a queue finds it; otherwise each pod looks for its like."""


class _Wish(NamedTuple):
    """The one term of an affinity."""

    label: str
    required: bool
    selector: Tree


def level_of(templates: Iterable[Tree], name: str) -> Level | None:
    """The place that all pods with ranks of one object want to share: each by an affinity, or one of them by its annotation."""
    found = {_level(one, name) for one in templates}
    by_queue = next((one for one in found if one and one.of_queue), None)
    level = by_queue or (found.pop() if len(found) == 1 else None)
    return level if level and not not_qualified(level.label) else None


def _level(template: Tree, name: str) -> Level | None:
    annotations = mapping(template, "/metadata/annotations")
    for key, required in PLACE.items():
        if key in annotations:
            return Level(str(annotations[key]), required, of_queue=True)
    wish = _wish(mapping(template, "/spec/affinity/podAffinity"))
    if wish is None or wish.label == HOST or not _means_its_own(wish.selector, template, name, {}):
        return None
    return Level(wish.label, wish.required)


def keeps_apart(template: Tree, name: str, marks: Mapping[str, str]) -> bool:
    """Whether all that a pod wants of others is that none like it is on its node; ``marks`` are labels that it gets."""
    wish = _wish(mapping(template, "/spec/affinity/podAntiAffinity"))
    return wish is not None and wish.required and wish.label == HOST and _means_its_own(wish.selector, template, name, marks)


def shares(spec: Tree, level: Level) -> bool:
    """Whether a pod of ours looks for its like at that level."""
    wish = _wish(mapping(spec, "/affinity/podAffinity"))
    return wish is not None and (wish.label, wish.required) == (level.label, level.required)


def _wish(affinity: Tree) -> _Wish | None:
    """None where it has several terms, or one that no run has."""
    required = [one for _, one in items(affinity, f"/{REQUIRED}")]
    preferred = [one for _, one in items(affinity, f"/{PREFERRED}")]
    if len(required) + len(preferred) != 1 or any(one.get("weight") != WEIGHT for one in preferred):
        return None
    (term,) = required or [mapping(one, "/podAffinityTerm") for one in preferred]
    if term.keys() != {"labelSelector", "topologyKey"}:
        return None
    return _Wish(text(term, "/topologyKey"), bool(required), mapping(term, "/labelSelector"))


def _means_its_own(selector: Tree, template: Tree, name: str, marks: Mapping[str, str]) -> bool:
    """Whether it names labels of the pod; an empty one, or one that only excludes, means the pods of others too."""
    if not selector or any(text(one, "/operator") != "In" for _, one in items(selector, "/matchExpressions")):
        return False
    named = [*mapping(selector, "/matchLabels"), *(text(one, "/key") for _, one in items(selector, "/matchExpressions"))]
    given = {key: name for key in named if key.rpartition("/")[2] in _OF_ONE_OBJECT}
    return selects(selector, {**mapping(template, "/metadata/labels"), **given, **marks})


def wishes(template: Tree, field: str, name: str) -> dict[str, Any]:
    """What ``podAffinity`` or ``podAntiAffinity`` says, in the words of a run; nothing where these lack one of its terms."""
    affinity, labels = mapping(template, f"/spec/affinity/{field}"), mapping(template, "/metadata/labels")
    required = [_term(one, name, labels) for _, one in items(affinity, f"/{REQUIRED}")]
    weighed = [(one.get("weight"), mapping(one, "/podAffinityTerm")) for _, one in items(affinity, f"/{PREFERRED}")]
    preferred = [{**term, "weight": weight} if (term := _term(one, name, labels)) else None for weight, one in weighed]
    if not all((*required, *preferred)):
        return {}
    return {key: said for key, said in (("required", required), ("preferred", preferred)) if said}


_TERM = frozenset({"labelSelector", "topologyKey", "namespaces"})
"""Fields of a term that a run has words for."""
_OF_ONE_ROLE = frozenset({"ray.io/group", "volcano.sh/task-spec", "jobset.sigs.k8s.io/replicatedjob-name"})
"""Labels by which controllers mark the pods of one role, whose name may be another one in ours."""


def _term(stated: Tree, name: str, labels: Tree) -> dict[str, Any] | None:
    """None where no word says one of its fields, or where our pods have other labels than it names."""
    selector = mapping(stated, "/labelSelector")
    unknown = (selector.keys() - {"matchLabels", "matchExpressions"}) | (stated.keys() - _TERM)
    if unknown or not selector or (name and named_after(name, stated, labels)):
        return None
    matched = {key: scalar(value) for key, value in mapping(selector, "/matchLabels").items()}
    expressions = [expression(one) for _, one in items(selector, "/matchExpressions")]
    named = {*matched, *(one["key"] for one in expressions)}
    if named & _OF_ONE_ROLE or any(is_the_plans(key, str(labels[key])) for key in named & labels.keys()):
        return None
    said = {
        "labels": matched,
        "expressions": expressions,
        "topology_key": text(stated, "/topologyKey"),
        "namespaces": texts(stated, "/namespaces"),
    }
    return {key: value for key, value in said.items() if value}


def expression(one: Tree) -> dict[str, Any]:
    """Of a selector, as a run writes it."""
    values = {"values": [str(value) for value in one["values"]]} if one.get("values") else {}
    return {"key": text(one, "/key"), "operator": text(one, "/operator"), **values}


def named_after(name: str, stated: Tree, labels: Tree) -> bool:
    """Whether it selects pods by what is called after an object, and so otherwise here. ``labels`` of the template stay as they
    are.
    """
    called = re.compile(rf"{re.escape(name)}(-.*)?")
    for leaf in leaves(stated):
        if isinstance(leaf.value, str) and called.fullmatch(leaf.value) and leaf.place[-1] not in ("key", "topologyKey"):
            holder = at(stated, leaf.pointer.rpartition("/values/")[0])
            if labels.get(text(holder, "/key") or leaf.place[-1]) != leaf.value:
                return True
    return False
