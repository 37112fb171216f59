"""Runs of real supervisors, cleaned up whatever happens."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from tests.processes import own_network
from tests.trainer.supervisor.pods import Run

from trainwright_trainer.commands.local import free_ports
from trainwright_trainer.contract import RunSpec

_runs = itertools.count(1)


class NewRun(Protocol):
    def __call__(
        self, nodes: int = ..., processes: int = ..., *, work: dict[str, Any] | None = ..., **lifecycle: Any
    ) -> Run: ...


def training_work(directory: Path, **checkpoints: object) -> dict[str, Any]:
    return {
        "kind": "trainer", "engine": "ddp", "task": "image-classification",
        "model": {
            "architecture": "vit", "image_size": 8, "patch_size": 4, "num_channels": 1, "hidden_size": 8, "intermediate_size": 8,
            "num_hidden_layers": 1, "num_attention_heads": 1, "num_labels": 10,
        },
        "data": {"source": "digits"}, "batch": {"micro": 4}, "optimizer": {"kind": "adamw"}, "learning_rate": {"peak": 0.001},
        "duration": {"steps": 10}, "checkpoints": {"directory": str(directory), **checkpoints},
    }


def specification(
    directory: Path, nodes: int, processes: int, work: dict[str, Any] | None, base: str, **lifecycle: Any
) -> RunSpec:
    control, http, rendezvous = free_ports(3)
    return RunSpec.model_validate({
        "run": "fake", "identity": "fake-1a2b3c",
        "world": {
            "nodes": nodes, "processes_per_node": processes, "device": "cpu", "node_index_env": "NODE_INDEX",
            "rendezvous": {"kind": "static", "host": f"{base}1", "port": rendezvous}, "control_port": control,
        },
        "lifecycle": {"grace_seconds": 30, "peer_wait_seconds": 60, **lifecycle},
        "http_port": http,
        "work": work or training_work(directory / "state"),
    })


@pytest.fixture
def new_run(tmp_path: Path) -> Iterator[NewRun]:
    runs: list[Run] = []

    def make(nodes: int = 2, processes: int = 1, *, work: dict[str, Any] | None = None, **lifecycle: Any) -> Run:
        number = next(_runs)
        base = own_network()
        directory = tmp_path / f"run-{number}"
        directory.mkdir()
        run = Run(directory, specification(directory, nodes, processes, work, base, **lifecycle), base)
        runs.append(run)
        return run

    yield make
    for run in runs:
        run.clean_up()
