"""Whether the API server and the operators' webhooks would take an object."""

from __future__ import annotations

import copy
import os
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate

from trainwright.validate import Catalogue, load_catalogue, object_problems
from trainwright.validate.core import is_core

UPSTREAM = os.environ.get("TRAINWRIGHT_CRDS")
"""A folder with the operators' CRDs; unset, custom kinds are checked by the operators' rules alone."""

EARLIER = frozenset({"/spec/podTemplateOverrides"})
"""Fields of releases before the one whose CRDs are pinned: Trainer 2.1 has this one, 2.2 and later have runtimePatches."""


@cache
def catalogue() -> Catalogue:
    return load_catalogue(Path(UPSTREAM)) if UPSTREAM else Catalogue()


def assert_taken(manifest: dict[str, Any], kubernetes: str) -> None:
    """By the schema of its kind, at a version of Kubernetes, and by its operator."""
    if is_core(manifest["apiVersion"]):
        assert kubernetes_validate.validate(copy.deepcopy(manifest), kubernetes, strict=True) is not None
    found, known = object_problems(manifest, catalogue(), kubernetes)
    assert [problem for problem in found if problem.pointer not in EARLIER] == []
    assert known or UPSTREAM is None, f"no schema of {manifest['apiVersion']} {manifest['kind']}"
