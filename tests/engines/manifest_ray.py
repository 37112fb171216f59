"""A RayJob of dist/ on this machine: its head and its workers as Ray nodes, and its very entrypoint as the driver."""

from __future__ import annotations

import copy
import json
import shlex
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import mkdtemp
from types import TracebackType
from typing import Any, Self

import yaml
from tests.engines.manifest_volumes import Volumes
from tests.engines.processes import ROOT, Processes
from tests.engines.ray.conftest import is_up

from trainwright_trainer.commands.local import free_port
from trainwright_trainer.contract import RunSpec
from trainwright_trainer.contract.layout import SPEC_DIRECTORY, SPEC_FILE, TERMINATION_PATH_ENV

Tree = dict[str, Any]
NOT_HERE = ("NCCL_SOCKET_IFNAME", "OMP_NUM_THREADS", "HOME")
"""Variables that speak of the pod's machine."""

SMALL: Tree = {
    "world.nodes": 2, "world.processes_per_node": 1, "world.device": "cpu", "lifecycle.peer_wait_seconds": 120,
    "lifecycle.preflight": {"when": "always"},
    "work.duration": {"steps": 3}, "work.batch.micro": 2, "work.batch.accumulation": 2, "work.learning_rate.warmup_samples": 0,
    "work.evaluation.max_batches": 1, "work.log_every_steps": 1, "work.checkpoints.every_seconds": None,
    "work.checkpoints.every_steps": 2, "work.data.samples": None, "work.model.hidden_size": 32,
    "work.model.intermediate_size": 64, "work.model.num_hidden_layers": 2, "work.model.num_attention_heads": 4,
    "work.model.num_key_value_heads": 2, "work.model.vocab_size": 400, "work.data.vocabulary": 400,
    "work.data.sequence_length": 32,
}  # fmt: skip
"""Dotted path in run.json -> value; None takes the key out."""


class RayJob:
    """One run, in a folder: each volume is a folder there, and each pod a Ray node with an address of its own.

    Args:
        path: ``CLUSTER/NAMESPACE/runs/NAME`` below dist/.
        folder: For volumes, files and logs.
    """

    def __init__(self, path: str, folder: Path) -> None:
        documents = list(yaml.safe_load_all((ROOT / "dist" / f"{path}.k8s.yaml").read_text(encoding="utf-8")))
        [job] = [document for document in documents if document["kind"] == "RayJob"]
        self.name: str = job["metadata"]["name"]
        self._folder, self._entrypoint = folder, job["spec"]["entrypoint"]
        self._head, [self._workers] = (job["spec"]["rayClusterSpec"][group] for group in ("headGroupSpec", "workerGroupSpecs"))
        mounts = (mount["mountPath"] for group in (self._head, self._workers) for mount in _container(group)["volumeMounts"])
        self._volumes = Volumes(folder, (*mounts, "/app"))
        self.spec: RunSpec | None = None
        """As the pods read it; None where the driver is a program of its author's."""
        for document in documents:
            if document["kind"] == "ConfigMap" and SPEC_FILE in document["data"]:
                self._deliver(json.loads(document["data"][SPEC_FILE]))

    def _deliver(self, document: Tree) -> None:
        ports: dict[int, int] = {}
        small = self._volumes.here(_small(document, lambda declared: ports.setdefault(declared, free_port())))
        self.at(SPEC_DIRECTORY, SPEC_FILE).write_text(json.dumps(small, indent=2))
        self.spec = RunSpec.model_validate(small)

    def __enter__(self) -> Self:
        """The head, and each worker with one processor in place of its pod's many."""
        logs, port = self._folder / "logs", free_port()
        logs.mkdir()
        self._processes, self._session = Processes(logs), Path(mkdtemp(prefix="ray-"))
        self._address = f"127.0.0.1:{port}"
        quiet = ["--block", "--disable-usage-stats", "--object-store-memory=100000000"]
        try:
            is_up(self._processes.start(
                ["ray", "start", "--head", "--node-ip-address=127.0.0.1", f"--port={port}", "--include-dashboard=false",
                 f"--temp-dir={self._session}", *_options(self._head), *quiet],
                self._environment(self._head),
            ))
            for number in range(self._workers["replicas"]):
                own = [f"--address={self._address}", f"--node-ip-address=127.0.0.{number + 2}", "--num-cpus=1"]
                # Ray takes the word of its options for how many GPUs there are, unless the environment names fewer.
                seen = {"CUDA_VISIBLE_DEVICES": ",".join(map(str, range(int(self._workers["rayStartParams"]["num-gpus"]))))}
                command = ["ray", "start", *own, *_options(self._workers), *quiet]
                is_up(self._processes.start(command, self._environment(self._workers) | seen))
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._processes.close()
        shutil.rmtree(self._session)

    def at(self, *path: str) -> Path:
        """Where a path of the pods is here."""
        return self._volumes.at("/".join(path))

    def variables(self) -> dict[str, str]:
        """Of the entrypoint, which runs on the head: the pod's own, and what KubeRay and the kubelet add."""
        return {
            **self._environment(self._head), "RAY_ADDRESS": self._address, "HOSTNAME": "127.0.0.1",
            TERMINATION_PATH_ENV: str(self._folder / "termination.json"),
        }

    def drive(self, processes: Processes) -> str:
        """Run the entrypoint until it has ended with 0; returns what it said."""
        words = self._volumes.here(shlex.split(self._entrypoint))
        log = processes.start(words, self.variables())
        processes.wait()
        return log.read_text(encoding="utf-8", errors="replace")

    def _environment(self, group: Tree) -> dict[str, str]:
        found: dict[str, str] = {
            entry["name"]: self._volumes.here(entry["value"]) for entry in _container(group)["env"]
        }
        return {name: value for name, value in found.items() if name not in NOT_HERE}


def _container(group: Tree) -> Tree:
    """A pod's Ray container, which is its first."""
    container: Tree = group["template"]["spec"]["containers"][0]
    return container


def _options(group: Tree) -> list[str]:
    """As KubeRay makes them of ``rayStartParams`` (ray-operator/controllers/ray/common/pod.go); no dashboard is started here."""
    parameters: Mapping[str, str] = group["rayStartParams"]
    return [f"--{name}={value}" for name, value in parameters.items() if name != "dashboard-host"]


def _small(document: Tree, port: Callable[[int], int]) -> Tree:
    """The run's specification at the size of this machine, with a port that is free here."""
    small = copy.deepcopy(document)
    for path, value in SMALL.items():
        *parents, key = path.split(".")
        place = small
        for parent in parents:
            place = place.setdefault(parent, {})
        if value is None:
            place.pop(key, None)
        else:
            place[key] = value
    small["http_port"] = port(small["http_port"])
    return small
