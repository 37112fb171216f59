"""Claims of a cluster profile."""

from __future__ import annotations

from typing import Any

import pytest
from tests.compiler.example import CLUSTER
from tests.compiler.findings.page import overlay

from trainwright.cluster import Cluster
from trainwright.findings.locate import Locator
from trainwright.rules.profile import check_profile


def codes(claim: dict[str, Any]) -> list[str]:
    cluster = Cluster.model_validate(overlay(CLUSTER, {"namespaces": {"training": {"claims": {"models": claim}}}}))
    return [finding.code for finding in check_profile(cluster, Locator())]


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        ({"storage_class": "nfs", "size": "1Ti"}, []),
        ({"size": "1Ti"}, []),
        ({"storage_class": "nfs"}, ["TW311"]),
        ({"managed": False}, []),
        ({"storage_class": "other", "size": "1Ti"}, ["TW312"]),
        ({"storage_class": "nfs", "size": "1Ti", "access": "ReadWriteOncePod"}, ["TW312"]),
        ({"storage_class": "other"}, ["TW311", "TW312"]),
    ],
)
def test_claims(claim: dict[str, Any], expected: list[str]) -> None:
    assert codes(claim) == expected
