"""What a run may choose among few things: words of its schema, and names of its profile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel

from trainwright.cluster import Cluster
from trainwright.importing.words import Data
from trainwright.run import Run
from trainwright.run.model import Placement


def choices(cluster: Cluster, data: Data) -> Iterator[tuple[str, Any]]:
    """Pointer in a run, and a value that it may have there."""
    for pool in cluster.node_pools:
        yield "/node_pool", pool
        yield from ((f"/roles/{role}/node_pool", pool) for role in data.get("roles", {}))
    space = cluster.namespaces.get(str(data["namespace"]))
    scheduling = cluster.scheduling
    for queue in (*(space.queues if space else ()), *((scheduling.queues or ()) if scheduling else ())):
        yield "/queue", queue
    for level in cluster.topology:
        yield from (("/placement", {"together": level, "required": required}) for required in (False, True))
    yield from _of_model(Run, "")
    yield from _of_model(Placement, "/placement")


def _of_model(model: type[BaseModel], pointer: str) -> Iterator[tuple[str, Any]]:
    """Values of the fields that have few of them."""
    for name, info in model.model_fields.items():
        for part in (info.annotation, *get_args(info.annotation)):
            if part is bool:
                yield from ((f"{pointer}/{name}", value) for value in (True, False) if value != info.default)
            elif get_origin(part) is Literal:
                yield from ((f"{pointer}/{name}", value) for value in get_args(part) if value != info.default)
