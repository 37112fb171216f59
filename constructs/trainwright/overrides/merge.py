"""Merge patches on manifests: objects merge, lists of named things merge by their key, everything else is replaced.

It is a JSON merge patch (RFC 7386) with the lists of Kubernetes' strategic merge. An item of such a list cannot be removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainwright.findings.locate import escape

MERGE_KEYS = {
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "ports": "containerPort",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
}
"""List field -> its key, where that is not ``name`` (patchMergeKey in the Kubernetes API)."""

ADDITIVE = frozenset({"tolerations"})
"""Lists without a key, whose items add up: a patch must not take away what the node pool needs."""

_ABSENT: Any = object()


def merge(target: Any, patch: Any, field: str = "") -> Any:
    """A new value: ``patch`` on ``target``. ``None`` removes a key; the target is left as it is."""
    if isinstance(patch, dict):
        merged = dict(target) if isinstance(target, dict) else {}
        for key, value in patch.items():
            if value is None:
                merged.pop(key, None)
            else:
                merged[key] = merge(merged.get(key), value, key)
        return merged
    if isinstance(patch, list) and is_keyed(patch, field):
        return _merge_list(target if isinstance(target, list) else [], patch, merge_key(field))
    if isinstance(patch, list) and field in ADDITIVE and isinstance(target, list):
        return target + [item for number, item in enumerate(patch) if not _among(item, [*target, *patch[:number]])]
    return patch


def merge_key(field: str) -> str:
    """The key by which items of a list field are told apart."""
    return MERGE_KEYS.get(field, "name")


def is_keyed(items: list[Any], field: str) -> bool:
    """Whether every item of a list names itself, so that the list merges item by item."""
    key = merge_key(field)
    return bool(items) and all(isinstance(item, dict) and type(item.get(key)) in (str, int) for item in items)


def _merge_list(target: list[Any], patch: list[Any], key: str) -> list[Any]:
    merged = list(target)
    for item in patch:
        index = _place(merged, key, item[key])
        if index is None:
            merged.append(merge({}, item))
        else:
            merged[index] = merge(merged[index], item)
    return merged


def _place(items: list[Any], key: str, value: Any) -> int | None:
    return next((index for index, item in enumerate(items) if isinstance(item, dict) and same(item.get(key), value)), None)


def _among(item: Any, items: list[Any]) -> bool:
    return any(same(item, other) for other in items)


def same(one: Any, other: Any) -> bool:
    """Equality as JSON has it: True is not 1, and 1 is not 1.0."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def touched(target: Any, patch: Any, pointer: str = "", field: str = "") -> Iterator[tuple[str, str]]:
    """Pointers of what the patch changes, each with its pointer in the patch; what is so already is not named.

    A branch that is new, replaced or removed as a whole is one pointer. A patch names each item of a list once.
    """
    yield from _walk(target, patch, pointer, "", field)


def _walk(present: Any, change: Any, here: str, there: str, field: str) -> Iterator[tuple[str, str]]:
    if isinstance(present, dict) and isinstance(change, dict):
        for key, value in change.items():
            token = escape(key)
            yield from _walk(present.get(key, _ABSENT), value, f"{here}/{token}", f"{there}/{token}", key)
    elif isinstance(present, list) and isinstance(change, list) and is_keyed(change, field):
        new = len(present)
        for number, item in enumerate(change):
            index = _place(present, merge_key(field), item[merge_key(field)])
            if index is None:
                yield f"{here}/{new}", f"{there}/{number}"
                new += 1
            else:
                yield from _walk(present[index], item, f"{here}/{index}", f"{there}/{number}", "")
    elif isinstance(present, list) and isinstance(change, list) and field in ADDITIVE:
        added = [number for number, item in enumerate(change) if not _among(item, [*present, *change[:number]])]
        for offset, number in enumerate(added):
            yield f"{here}/{len(present) + offset}", f"{there}/{number}"
    elif change is None:
        if present is not _ABSENT:
            yield here, there
    elif not same(present, merge(None, change, field)):
        yield here, there
