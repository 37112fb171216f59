"""Pods whose supervisors nothing connects: each has its own environment, and they share a run, a journal and a commit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.trainer.supervisor.pods import PodProcess, Pods, wait_until

from trainwright_trainer.contract.layout import BIND_ENV, SPEC_ENV, TERMINATION_PATH_ENV

SUPERVISE = (
    "import os, sys\n"
    "from trainwright_trainer.supervisor import signals\n"
    "signals.hold()\n"
    "from trainwright_trainer.supervisor.supervise import supervise\n"
    "sys.exit(supervise(os.environ, trainer_command=sys.argv[1:]))\n"
)
RANK = Path(__file__).with_name("fake_lone_rank.py")


@dataclass
class LoneRun(Pods):
    """Pod i has the address that ends with i + 1."""

    steps: int = 1_000_000
    rank: Sequence[str] = (sys.executable, str(RANK))
    """What each rank really runs."""

    def start(self, number: int, environment: Mapping[str, str] | None = None) -> PodProcess:
        spec_path = self.directory / "run.json"
        spec_path.write_text(self.spec.model_dump_json())
        name = f"pod-{number}-{len(self.pods)}"
        log_path, message_path = self.directory / f"{name}.log", self.directory / f"{name}.json"
        address = f"{self.address_base}{number + 1}"
        with log_path.open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-c", SUPERVISE, *self.rank],
                env={
                    **os.environ, SPEC_ENV: str(spec_path), BIND_ENV: address, TERMINATION_PATH_ENV: str(message_path),
                    "HOSTNAME": address, "FAKE_JOURNAL": str(self.journal_path), "FAKE_PLANS": json.dumps(self.plans),
                    "FAKE_COMMIT": str(self.directory / "commit"), "FAKE_STEPS": str(self.steps),
                    "PYTHONPATH": os.pathsep.join(sys.path), **(environment or {}),
                },
                stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            )
        pod = PodProcess(number, process, log_path, message_path, address, self.spec.http_port)
        self.pods.append(pod)
        return pod

    def wait_for_size(self, size: int, rounds: int = 1) -> None:
        """Until so many rounds have begun with so many ranks, and one trains."""
        def begun() -> bool:
            attempts = [line["attempt"] for line in self.journal("started") if line["size"] == size]
            return sum(attempts.count(attempt) == size for attempt in set(attempts)) >= rounds

        wait_until(begun, f"{rounds} rounds of {size} ranks:\n{self.logs()}", 120)
