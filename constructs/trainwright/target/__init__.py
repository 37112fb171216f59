"""Targets: kinds of Kubernetes objects that can carry a run. Each is one module, registered here."""

from trainwright.target.base import Target
from trainwright.target.indexed_job import IndexedJob

TARGETS: dict[str, Target] = {target.name: target for target in (IndexedJob(),)}
"""Every target by name."""

__all__ = ["TARGETS", "IndexedJob", "Target"]
