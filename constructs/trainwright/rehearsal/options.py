"""What a caller may choose about a rehearsal."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Options:
    fresh: bool = False
    """Empty the volumes that the pods write to first."""
    nodes: int | None = None
    """At most so many pods; None: two for a run on GPUs, all of them for a run on CPUs."""
    timeout_seconds: float | None = None
    """End the rehearsal as failed after so long."""
    mounts: Mapping[str, Path] = field(default_factory=dict)
    """Path in the container -> folder on this machine that stands for it, such as what the image holds there."""
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    """The caller's own environment: values for Secrets come from it."""
    first_address: str = "127.0.0.2"
    """Loopback address of pod 0; the others follow."""
    ready_seconds: float = 120.0
    """How long a readiness or startup probe may take to pass for the first time."""
    replace_seconds: float = 2.0
    """Delay before a pod is replaced. The Job controller waits 10 s, and doubles that for each further failure of the index."""
