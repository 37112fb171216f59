"""Pods whose supervisors nothing connects: each has its own environment, and they share a run, a journal and a commit."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.processes import wait_until
from tests.trainer.supervisor.pods import PodProcess, Pods

RANK = Path(__file__).with_name("fake_lone_rank.py")


@dataclass
class LoneRun(Pods):
    """Pod i has the address that ends with i + 1."""

    steps: int = 1_000_000
    rank: Sequence[str] = (sys.executable, str(RANK))

    def start(self, number: int, environment: Mapping[str, str] | None = None) -> PodProcess:
        address = f"{self.address_base}{number + 1}"
        variables = {
            "HOSTNAME": address, "FAKE_COMMIT": str(self.directory / "commit"), "FAKE_STEPS": str(self.steps),
            "PYTHONPATH": os.pathsep.join(sys.path), **(environment or {}),
        }
        return self.launch(f"pod-{number}-{len(self.pods)}", number, address, variables)

    def wait_for_size(self, size: int, rounds: int = 1) -> None:
        """Until so many rounds have begun with so many ranks, and one trains."""
        def begun() -> bool:
            attempts = [line["attempt"] for line in self.journal("started") if line["size"] == size]
            return sum(attempts.count(attempt) == size for attempt in set(attempts)) >= rounds

        wait_until(begun, f"{rounds} rounds of {size} ranks", 120, told=self.logs)
