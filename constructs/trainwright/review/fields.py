"""The Kubernetes fields that differ between two files of ``dist/``, free of the identity in the names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from yaml import YAMLError

from trainwright.manifest.kinds import ObjectKey
from trainwright.manifest.written import values

IDENTITY = "IDENTITY"
"""Stands for either side's identity."""
LONGEST = 120
"""Characters of a value that are shown."""

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A leaf that differs; a whole object that is new or gone has an empty path."""

    object: str
    """``Job llama-IDENTITY``."""
    path: str
    before: str | None
    after: str | None


Objects = Mapping[ObjectKey, Mapping[str, Any]]


def objects(text: str | None, identity: str) -> Objects:
    """Objects of a file by group, kind, namespace and name, with the identity replaced. None, as no file, holds none.

    Raises:
        ValueError: where the file is not YAML, or holds something other than objects.
    """
    if text is None:
        return {}
    masked = text.replace(identity, IDENTITY) if identity else text
    try:
        return {ObjectKey.of(one): one for one in values(masked)}
    except (YAMLError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"it cannot be read as objects: {type(error).__name__}") from error


def field_changes(before: Objects, after: Objects) -> Iterator[FieldChange]:
    """Objects in the order of the new file, then those that are gone."""
    for key in dict.fromkeys((*after, *before)):
        old, new = before.get(key), after.get(key)
        name = f"{key[1]} {key[3]}"
        if old is None or new is None:
            yield FieldChange(name, "", None if old is None else "there", None if new is None else "there")
        else:
            yield from (FieldChange(name, *leaf) for leaf in _leaves(old, new, ""))


Leaf = tuple[str, str | None, str | None]


def _leaves(before: Any, after: Any, path: str) -> Iterator[Leaf]:
    if before == after:
        return
    if isinstance(before, str) and isinstance(after, str):
        parsed = _payload(before), _payload(after)
        if parsed[0] is not None and parsed[1] is not None:
            yield from _leaves(*parsed, f"{path}:")
            return
    both = _named(before), _named(after)
    if both[0] is not None and both[1] is not None:
        if isinstance(before, list) and isinstance(after, list):
            yield from _order(list(both[0]), list(both[1]), path)
        for key in dict.fromkeys((*both[1], *both[0])):
            yield from _leaves(both[0].get(key), both[1].get(key), f"{path}{_step(key, path)}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _leaves(old, new, f"{path}[{index}]")
    else:
        yield path, *_shown(_text(before), _text(after))


def _order(before: Sequence[str], after: Sequence[str], path: str) -> Iterator[Leaf]:
    """Of items that both lists have: init containers run one after the other, and a variable is read by those below it."""
    old, new = [key for key in before if key in after], [key for key in after if key in before]
    if old != new:
        yield f"{path} (order)", *_shown(*(_text(", ".join(key[1:-1] for key in keys)) for keys in (old, new)))


def _named(value: Any) -> Mapping[str, Any] | None:
    """A mapping, or a list whose items have names of their own. A rule of Prometheus is called after its alert or its run."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, Sequence) and not isinstance(value, str) and value:
        names = [_name(one) if isinstance(one, Mapping) else None for one in value]
        if all(isinstance(name, str) for name in names) and len(set(names)) == len(names):
            return {f"[{name}]": one for name, one in zip(names, value, strict=True)}
    return None


def _name(item: Mapping[str, Any]) -> Any:
    labels = item.get("labels")
    return item.get("name") or item.get("alert") or (labels.get("run") if isinstance(labels, Mapping) else None)


def _step(key: str, path: str) -> str:
    if key.startswith("["):
        return key
    if _PLAIN.fullmatch(key):
        return f".{key}" if path and not path.endswith(":") else key
    return f"[{json.dumps(key)}]"


def _payload(text: str) -> Any:
    """What a JSON file inside a ConfigMap says; None for another text."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return json.loads(text, parse_constant=str)
    except (ValueError, RecursionError):
        return None


def _text(value: Any) -> str | None:
    """In ASCII, on one line."""
    if value is None:
        return None
    return value if isinstance(value, str) and value.isprintable() and value.isascii() else json.dumps(value)


_BEFORE_A_CHANGE = 30
"""Characters that a reader needs to find where a long text changes."""


def _shown(before: str | None, after: str | None) -> tuple[str | None, str | None]:
    """As much as a reviewer reads; two long texts that begin alike from where they differ on, such as two scripts."""
    if before is None or after is None:
        return _short(before), _short(after)
    pairs = enumerate(zip(before, after, strict=False))
    alike = next((at for at, (old, new) in pairs if old != new), min(len(before), len(after)))
    if alike < LONGEST - 25 - _BEFORE_A_CHANGE:
        return _short(before), _short(after)
    start = alike - _BEFORE_A_CHANGE
    return f"...{_short(before[start:])}", f"...{_short(after[start:])}"


def _short(text: str | None) -> str | None:
    return text if text is None or len(text) <= LONGEST else f"{text[:LONGEST - 25]}... ({len(text)} characters)"
