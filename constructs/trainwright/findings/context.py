"""What a rule may look at."""

from __future__ import annotations

from datetime import date
from typing import NamedTuple

from trainwright.cluster import Cluster
from trainwright.findings.locate import Locator
from trainwright.run import Run


class Context(NamedTuple):
    """A run, its cluster, where both are written, and the day that waivers are compared with."""

    run: Run
    cluster: Cluster
    locate: Locator
    today: date
