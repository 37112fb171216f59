"""Identity: the hash in a run's name, which moves exactly when a pod would change.

The projection is versioned: version 1 is every object of the run with its kind's mutable parts left out, the attempt and the
queue. A change of the projection renames every run of every user, so the golden fleet test pins it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

PROJECTION = 1
PLACEHOLDER = "00000000"
"""Stands for the hash while the objects are lowered for hashing: same length, so that every derived name is as long."""

MUTABLE_EVERYWHERE = ("/metadata/labels", "/metadata/annotations")


def short_hash(value: Any) -> str:
    """Eight characters of Crockford-like base32 over a canonical JSON form."""
    return _short(_canonical(value))


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def _short(text: str) -> str:
    digest = base64.b32encode(hashlib.sha256(text.encode()).digest()).decode().lower()[:8]
    return digest.translate(str.maketrans("ilou", "0189"))


def is_hash(text: str) -> bool:
    """Whether a text could be one, so that names with it are as long as names with any other."""
    return re.fullmatch(r"[0-9a-z]{8}", text) is not None


def identity_hash(
    objects: Iterable[tuple[Mapping[str, Any], tuple[str, ...]]], attempt: int, queue: str | None, last: str = PLACEHOLDER
) -> str:
    """Eight base32 characters over the objects as they are lowered with the placeholder for a hash.

    The queue is a label, and labels may change; but no controller lets a run that was admitted change its queue.

    Args:
        objects: each that the run's name is in, with the pointers, besides labels and annotations, that may change in place.
        attempt: of the run.
        queue: of the run.
        last: the hash that they were lowered with, where it is another text: it counts as the placeholder wherever it stands.
    """
    fixed = [_immutable(manifest, (*MUTABLE_EVERYWHERE, *mutable)) for manifest, mutable in objects]
    named = {} if queue is None else {"queue": queue}
    text = _canonical({"projection": PROJECTION, "attempt": attempt, **named, "objects": fixed})
    return _short(text.replace(last, PLACEHOLDER))


def _immutable(manifest: Mapping[str, Any], pointers: tuple[str, ...]) -> dict[str, Any]:
    kept = dict(manifest)
    for pointer in pointers:
        first, *rest = pointer.split("/")[1:]
        if not rest:
            kept.pop(first, None)
        elif isinstance(kept.get(first), Mapping):
            kept[first] = _immutable(kept[first], ("/" + "/".join(rest),))
    return kept
