"""What operators' mutating webhooks write into objects before the API server validates them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from trainwright.manifest.kinds import GroupKind
from trainwright.operators.jobset import rules as jobset

DEFAULTS: Mapping[GroupKind, Callable[[dict[str, Any]], None]] = {
    GroupKind("jobset.x-k8s.io", "JobSet"): jobset.fill_in,
}
"""Kind -> what its mutating webhook writes, before the API server validates the object."""


def completed(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """The object after its operator's mutating webhook, as far as that decides whether it is valid."""
    fill_in = DEFAULTS.get(GroupKind.of(manifest))
    if fill_in is None:
        return manifest
    made = copy.deepcopy(dict(manifest))
    fill_in(made)
    return made
