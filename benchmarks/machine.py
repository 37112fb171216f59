"""What a measurement was taken on."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

BUSY = 0.5
"""Load from which on other work disturbs the seconds."""


@dataclass(frozen=True, slots=True)
class Machine:
    """This machine, as it was found."""

    cpus: int
    cpu: str
    python: str
    versions: dict[str, str]
    load: float

    @classmethod
    def describe(cls, packages: Sequence[str]) -> Machine:
        """As it is now, with the versions of these packages. Ends the program where one is missing."""
        try:
            versions = {name: version(name) for name in packages}
        except PackageNotFoundError as error:
            sys.exit(f"{error.name} is missing: `make bench-train` and `make bench-gpu` install everything that this needs")
        return cls(os.cpu_count() or 1, _cpu(), platform.python_version(), versions, round(os.getloadavg()[0], 1))

    def __str__(self) -> str:
        versions = ", ".join(f"{name} {number}" for name, number in self.versions.items())
        busy = ": the machine is busy, trust the ratios more than the rest" if self.load > BUSY else ""
        return f"{self.cpus} CPUs ({self.cpu}), Python {self.python}, {versions}\nload at the start {self.load:.1f}{busy}"


def _cpu() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
    except OSError:
        return platform.processor() or platform.machine()
