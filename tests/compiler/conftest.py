"""What the compiler's tests share."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.amber import AmberSnapshotExtension


class YamlSnapshots(AmberSnapshotExtension):
    """Snapshots as a reviewer reads manifests: what is not text is YAML."""

    def serialize(self, data: Any, **_: Any) -> str:
        return data if isinstance(data, str) else yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=130)


@pytest.fixture
def snapshot(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(YamlSnapshots)
