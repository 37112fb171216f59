"""A Ray cluster of a head without processors and two nodes with one each, as a RayJob's pods are, on this machine."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

import pytest
from tests.engines.processes import Processes
from tests.processes import wait_until

from trainwright_trainer.commands.local import free_port


@dataclass(frozen=True)
class Cluster:
    address: str

    def environment(self) -> dict[str, str]:
        """As KubeRay gives it to the entrypoint."""
        return {"RAY_ADDRESS": self.address}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    processes, port = Processes(tmp_path_factory.mktemp("cluster")), free_port()
    session = Path(mkdtemp(prefix="ray-"))  # the paths of its sockets, below this folder, may have 107 characters
    quiet = ["--block", "--disable-usage-stats", "--object-store-memory=100000000"]
    # --block keeps all that each starts in its own process group: `ray stop` would end every Ray on this machine.
    log = processes.start([
        "ray", "start", "--head", "--node-ip-address=127.0.0.1", f"--port={port}", "--num-cpus=0", "--include-dashboard=false",
        f"--temp-dir={session}", *quiet,
    ])
    try:
        is_up(log)
        for number in range(2):  # one after the other: on one machine two would choose the same name for a socket
            own = ["--num-cpus=1", f"--node-ip-address=127.0.0.{number + 2}"]
            is_up(processes.start(["ray", "start", f"--address=127.0.0.1:{port}", *own, *quiet]))
        yield Cluster(f"127.0.0.1:{port}")
    finally:
        processes.close()
        shutil.rmtree(session)


def is_up(log: Path) -> None:
    wait_until(lambda: "block forever" in log.read_text(encoding="utf-8", errors="replace"), f"Ray is up: {log}")
