"""What operators add to pods: containers that no object names, which the API server and the nodes see all the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from trainwright.cluster import Cluster
from trainwright.findings.locate import at
from trainwright.manifest.kinds import GroupKind
from trainwright.manifest.pods import pods_in
from trainwright.manifest.provenance import Tree
from trainwright.operators import TARGETS
from trainwright.operators.base import AddedContainer, Target


def added_by(target: Target, cluster: Cluster) -> list[AddedContainer]:
    """With the images of this cluster; none where the operator is not there."""
    installed = cluster.operators.get(target.operator.name) if target.operator else None
    return [one._replace(image=installed.init_image or one.image) for one in target.adds] if installed else []


class MadePod(NamedTuple):
    """A pod as a controller makes it."""

    spec: Tree
    """With the containers that the operator adds."""
    added: tuple[Tree, ...]
    """These."""


def pods_made(manifest: Mapping[str, Any], cluster: Cluster) -> Iterator[MadePod]:
    """Of each pod template of an object."""
    kind = GroupKind.of(manifest)
    targets = [target for target in TARGETS.values() if target.kind == kind]
    added = [one for target in targets for one in added_by(target, cluster) if at(manifest, one.beside)]
    for pod in pods_in(manifest):
        more = tuple({"name": one.name, "image": one.image} for one in added if pod.pointer == f"{one.template}/spec")
        spec = {**pod.spec, "initContainers": [*(pod.spec.get("initContainers") or ()), *more]} if more else pod.spec
        yield MadePod(spec, more)
