"""What an apply must know of a cluster: whether it is the right one, which kinds it serves, and what is there."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from trainwright.live.kubectl import Kubectl, KubectlError, Object, Reason, Resource
from trainwright.manifest.kinds import ObjectKey


class WrongClusterError(ValueError):
    """The context leads to another cluster than the profile is of."""


def cluster_uid(kubectl: Kubectl) -> str:
    """What tells a cluster from every other one: the uid of its namespace ``kube-system``."""
    (found,) = kubectl.get("namespace", "kube-system")
    return str(found["metadata"]["uid"])


def demand_cluster(kubectl: Kubectl, profile: str, stated: str) -> None:
    """Demand that a context leads to the cluster of a profile.

    Raises:
        WrongClusterError: where it does not.
        KubectlError: where the namespace cannot be read.
    """
    uid = cluster_uid(kubectl)
    if uid != stated:
        raise WrongClusterError(
            f"context {kubectl.context} leads to the cluster {uid}, and profile {profile} is of {stated} (its `uid`): "
            "name another context with --context"
        )


def objects_there(
    kubectl: Kubectl, resources: dict[tuple[str, str], Resource], wanted: Iterable[Object]
) -> dict[ObjectKey, Object]:
    """All objects of the kinds in a namespace; of kinds without a namespace, those that are wanted."""
    named = [f"{one.plural}.{version.rpartition('/')[2]}.{version.rpartition('/')[0]}"
             for (version, _), one in sorted(resources.items()) if one.namespaced]
    found = kubectl.get(",".join(named), "--show-managed-fields") if named else []
    for one in wanted:
        resource = resources[one["apiVersion"], one["kind"]]
        if not resource.namespaced:
            found += kubectl.get(resource.plural, one["metadata"]["name"], "--show-managed-fields", "--ignore-not-found")
    return {ObjectKey.of(one): one for one in found}


def unserved(resources: Collection[tuple[str, str]], wanted: Iterable[Object]) -> list[str]:
    """Kinds of wanted objects that the cluster does not have, each once."""
    kinds = dict.fromkeys((one["apiVersion"], one["kind"]) for one in wanted)
    return [f"the cluster has no {kind} ({version}): its operator is missing, or has another release than the profile says"
            for version, kind in kinds if (version, kind) not in resources]


def stored_inventory(kubectl: Kubectl, name: str) -> Object | None:
    """The ConfigMap of that name; None where there is none."""
    try:
        found = kubectl.get("configmap", name, "--ignore-not-found")
    except KubectlError as error:
        if error.reason is not Reason.NOT_FOUND:
            raise
        return None
    return found[0] if found else None
