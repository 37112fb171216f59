"""Small runs on the digits, by workers that are forked from one server: an import of TensorFlow takes many seconds."""

from __future__ import annotations

import json
import multiprocessing
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import pytest
from tests.engines.processes import QUIET, ROOT
from tests.engines.ranks import Process, Rank, Ranks

sys.path.insert(0, str(ROOT))  # multiprocessing hands this path to the children, which import the module below by name

from tests.engines.tensorflow.forked import run_rank

from trainwright_trainer.commands.local import free_ports

Spec = Callable[..., dict[str, Any]]


class Forked:
    """A forked process with the methods of :class:`subprocess.Popen`."""

    def __init__(self, process: Any) -> None:
        self._process = process
        self.pid: int = process.pid

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("a forked rank", timeout or 0)
        return int(self._process.exitcode)

    def poll(self) -> int | None:
        return None if self._process.exitcode is None else int(self._process.exitcode)


class Workers(Ranks):
    """Ranks that find each other by ``TF_CONFIG``."""

    def __init__(self, context: ForkServerContext, folder: Path) -> None:
        super().__init__("trainwright_trainer.tensorflow", folder)
        self._context = context

    def start(self, spec: dict[str, Any], environment: Mapping[int, Mapping[str, str]] | None = None) -> list[Rank]:
        nodes = spec["world"]["nodes"]
        addresses = [f"127.0.0.1:{port}" for port in free_ports(nodes)]
        own = {
            rank: {"TF_CONFIG": json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}})}
            for rank in range(nodes) if nodes > 1
        }
        return super().start(spec, {rank: {**own.get(rank, {}), **(environment or {}).get(rank, {})} for rank in range(nodes)})

    def spawn(self, environment: Mapping[str, str], output: Path, link: socket.socket) -> Process:
        output.touch()
        process = self._context.Process(target=run_rank, args=(dict(environment), str(output), link), daemon=True)
        process.start()
        return Forked(process)


@pytest.fixture(scope="session")
def server() -> Iterator[ForkServerContext]:
    with pytest.MonkeyPatch.context() as environment:
        for name, value in QUIET.items():
            environment.setenv(name, value)
        environment.setenv("KERAS_BACKEND", "tensorflow")
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([f"trainwright_trainer.tensorflow.{module}" for module in ("learner", "group")])
        yield context


@pytest.fixture
def ranks(server: ForkServerContext, tmp_path: Path) -> Iterator[Workers]:
    running = Workers(server, tmp_path)
    yield running
    running.close()


@pytest.fixture(scope="module")
def module_ranks(server: ForkServerContext, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    running = Workers(server, tmp_path_factory.mktemp("ranks"))
    yield running
    running.close()


VIT = {
    "architecture": "vit", "image_size": 8, "patch_size": 4, "num_channels": 1, "hidden_size": 32, "intermediate_size": 64,
    "num_hidden_layers": 2, "num_attention_heads": 2, "num_labels": 10,
}
RESNET = {
    "architecture": "resnet", "num_channels": 1, "image_size": 8, "embedding_size": 8, "hidden_sizes": [16, 32], "depths": [1, 1],
    "layer_type": "bottleneck", "num_labels": 10,
}


@pytest.fixture(scope="session")
def spec() -> Spec:
    """A small run in JSON; keywords replace keys of ``work``."""

    def build(directory: Path, *, world: int = 2, **work: Any) -> dict[str, Any]:
        return {
            "run": "digits", "identity": "digits-1",
            "world": {"nodes": world, "processes_per_node": 1, "device": "cpu", "rendezvous": {"kind": "tf-config"}},
            "lifecycle": {"grace_seconds": 600, "save_seconds": 5},
            "http_port": 9400,
            "work": {
                "kind": "trainer", "engine": "tensorflow", "task": "image-classification", "model": VIT,
                "data": {"source": "digits"}, "batch": {"micro": 16}, "optimizer": {"kind": "adamw"},
                "learning_rate": {"peak": 0.003, "warmup_samples": 64}, "duration": {"steps": 12}, "clip_norm": 1.0,
                "precision": "fp32", "checkpoints": {"directory": str(directory), "every_steps": 4},
                "evaluation": {"max_batches": 2}, "log_every_steps": 1,
                **work,
            },
        }

    return build
