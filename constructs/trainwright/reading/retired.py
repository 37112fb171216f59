"""What old tutorials name and nobody keeps any more: what became of it, and what to use instead."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Retired:
    reason: str
    instead: str


_MXNET = Retired(
    "MXNet was retired to the Apache Attic in 2023, and the Kubeflow Training Operator dropped MXJob",
    "train in torch: topology {kind: ddp, …}; the other topologies are in docs/topologies.md",
)

RETIRED: dict[str, Retired] = {"mxnet": _MXNET, "mxjob": _MXNET}
"""By name, in lower case and without dashes."""


def retired(value: object) -> Retired | None:
    """What became of a topology or target of this name; None for any other value."""
    return RETIRED.get(value.lower().replace("-", "").replace("_", "")) if isinstance(value, str) else None
