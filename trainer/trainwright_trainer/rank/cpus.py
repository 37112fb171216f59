"""Cores that a process may use."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def available_cpus() -> int:
    """Cores this pod may use: the smaller of its affinity and its cgroup's quota (a CPU limit moves no affinity)."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    try:
        quota, period = _CPU_QUOTA.read_text().split()
        return cores if quota == "max" else max(1, min(cores, int(quota) // int(period)))
    except (OSError, ValueError):
        return cores
