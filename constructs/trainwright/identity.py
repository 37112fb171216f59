"""Identity: the hash in a run's name, which moves exactly when a pod would change.

The projection is versioned: version 1 is every object of the run with its kind's mutable parts left out, the attempt and the
queue. A change of the projection renames every run of every user, so the golden fleet test pins it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from trainwright.manifest.kinds import GroupKind

PROJECTION = 1
PLACEHOLDER = "00000000"
"""Stands for the hash while the objects are lowered for hashing: same length, so that every derived name is as long."""

MUTABLE_EVERYWHERE = ("/metadata/labels", "/metadata/annotations")


def short_hash(value: Any) -> str:
    """Eight characters of Crockford-like base32 over a canonical JSON form."""
    return _hash_of_text(_canonical_json(value))


def _canonical_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def _hash_of_text(text: str) -> str:
    digest = base64.b32encode(hashlib.sha256(text.encode()).digest()).decode().lower()[:8]
    return digest.translate(str.maketrans("ilou", "0189"))


def is_identity(text: str) -> bool:
    """Whether a text has the form of an identity hash."""
    return re.fullmatch("[0-9a-z]{8}", text) is not None


def identity_hash(
    manifests: Sequence[Mapping[str, Any]],
    mutable: Mapping[GroupKind, tuple[str, ...]],
    attempt: int,
    queue: str | None,
    lowered_as: str = PLACEHOLDER,
) -> str:
    """Eight base32 characters over the objects as they are with the placeholder for a hash.

    The queue is a label, and labels may change; but no controller lets a run that was admitted change its queue.

    Args:
        manifests: the objects that the run's name is in.
        mutable: kind -> pointers, beside labels and annotations, that may change in place.
        attempt: of the run.
        queue: of the run.
        lowered_as: the hash that the objects were lowered with, which gives way to the placeholder here.
    """
    objects = [_immutable(manifest, (*MUTABLE_EVERYWHERE, *mutable.get(GroupKind.of(manifest), ()))) for manifest in manifests]
    named = {} if queue is None else {"queue": queue}
    text = _canonical_json({"projection": PROJECTION, "attempt": attempt, **named, "objects": objects})
    return _hash_of_text(text.replace(lowered_as, PLACEHOLDER))


def _immutable(manifest: Mapping[str, Any], pointers: tuple[str, ...]) -> dict[str, Any]:
    kept = dict(manifest)
    for pointer in pointers:
        first, *rest = pointer.split("/")[1:]
        if not rest:
            kept.pop(first, None)
        elif isinstance(kept.get(first), Mapping):
            kept[first] = _immutable(kept[first], ("/" + "/".join(rest),))
    return kept
