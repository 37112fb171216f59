"""The GPU of this machine, for tests that need a real one: NVIDIA's, and one is enough."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

NEEDS_GPU = pytest.mark.skipif(not Path("/dev/nvidiactl").exists(), reason="needs a GPU of NVIDIA's")


def users() -> set[int]:
    """Process ids of those that have a context on a GPU, as the driver tells them."""
    command = ["nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader"]
    return {int(pid) for pid in subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()}
