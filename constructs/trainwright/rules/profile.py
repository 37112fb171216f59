"""Rules on a cluster profile alone."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.cluster import Cluster
from trainwright.findings import Finding
from trainwright.findings.codes import found
from trainwright.findings.locate import Locator, escape


def check_profile(cluster: Cluster, locate: Locator) -> list[Finding]:
    """Claims that the foundation could not create."""
    return [*_claims(cluster, locate)]


def _claims(cluster: Cluster, locate: Locator) -> Iterator[Finding]:
    for namespace, place in cluster.namespaces.items():
        for name, claim in place.claims.items():
            where = locate.cluster(f"/namespaces/{escape(namespace)}/claims/{escape(name)}")
            if claim.managed and claim.size is None:
                yield found(
                    "TW311", where, f"claim {name} has no size", "add `size:`, or `managed: false` if it is there already"
                )
            if claim.storage_class is None:
                continue
            offered = cluster.storage_classes.get(claim.storage_class)
            if offered is None:
                known = ", ".join(cluster.storage_classes) or "none"
                yield found(
                    "TW312",
                    where,
                    f"storage class {claim.storage_class} is not in the profile",
                    f"use one of: {known}; or add it",
                )
            elif claim.access not in offered.access:
                yield found(
                    "TW312",
                    where,
                    f"storage class {claim.storage_class} cannot give {claim.access}",
                    f"it offers {', '.join(offered.access)}",
                )
