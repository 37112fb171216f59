"""Each folder here is tested by the Python of one engine's own environment: ``make test-engines``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.engines.processes import Processes


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    """Starts the processes of a test in ``tmp_path``, and ends those that are left when it ends."""
    started = Processes(tmp_path)
    yield started
    started.close()
