"""What the API server tells objects apart by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def object_key(manifest: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """Group, kind, namespace and name of a manifest that states apiVersion, kind and metadata.name."""
    metadata = manifest["metadata"]
    group = str(manifest["apiVersion"]).rpartition("/")[0]
    return group, str(manifest["kind"]), str(metadata.get("namespace", "")), str(metadata["name"])
