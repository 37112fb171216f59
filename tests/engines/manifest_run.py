"""Runs a manifest of dist/ here: its very commands, files and variables, each pod a process with an address of its own."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import threading
import time
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from prometheus_client.parser import text_string_to_metric_families
from tests.engines import manifest_scale as scale
from tests.engines.manifest_pods import Manifest, Pod, Tree, added_variables, hostfile, own_variables, read
from tests.engines.manifest_volumes import Volumes
from tests.engines.processes import BIN
from tests.processes import PATIENCE_SECONDS, own_network
from tests.served import served_by

from trainwright_trainer.checkpoint import read_complete
from trainwright_trainer.commands.local import free_port
from trainwright_trainer.contract import RunSpec, Training
from trainwright_trainer.contract.layout import SPEC_DIRECTORY, TERMINATION_PATH_ENV

SCRAPE_SECONDS = 0.05
"""A rank takes longer to end than that."""
OF_IMAGE = ("/etc/mpi", "/home/mpiuser", "/app")
"""Folders that the image or the MPI Operator has, or a file of the run is in, beside the volumes."""
STEP = re.compile(r'"event": "step".*?"loss": "?(?P<json>[^",]+)|  step  step \d+ .*?  loss (?P<plain>\S+)')
"""A step that was logged: for machines, or under mpirun, which gives its ranks a terminal, for people."""


class Playing:
    """One run, in a folder: each volume is a folder there, and each pod's name an address of the loopback interface.

    Args:
        path: ``CLUSTER/NAMESPACE/runs/NAME`` below dist/, or a file of its own.
        folder: For volumes, files and logs.
    """

    def __init__(self, path: str | Path, folder: Path) -> None:
        self.manifest: Manifest = read(path)
        self._folder, self._run = folder, self.manifest.run
        self._ports: dict[object, int] = {}
        self._processes: list[tuple[Pod, subprocess.Popen[bytes], Path]] = []
        self._begun: list[subprocess.Popen[bytes]] = []
        self.pods = self.manifest.pods(scale.nodes(self._run))
        self._base = own_network()
        mounts = [mount for pod in self.pods for mount in pod.container["volumeMounts"]]
        folders = (mount["mountPath"] for mount in mounts if mount.get("subPath") not in self.manifest.files)
        self._volumes = Volumes(folder, (*folders, *OF_IMAGE))
        self.small = scale.specification(self._run, self.manifest.specification, self._port)
        self.spec = RunSpec.model_validate(self._here(self.small))
        """As the pods read it."""

    def __enter__(self) -> Self:
        for name, text in self.manifest.files.items():
            if name == "hostfile":
                self.at("/etc/mpi/hostfile").write_text(str(self._here(scale.hosts(text, self.pods))))
                continue
            content = json.dumps(self.small) if name == "run.json" else scale.deepspeed(text, self.small)
            (self.at(SPEC_DIRECTORY) / name).write_text(json.dumps(self._here(json.loads(content)), indent=2))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for process in self._begun:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait()

    def at(self, path: str) -> Path:
        """Where a path of the pods is here."""
        return self._volumes.at(path)

    def address(self, pod: Pod) -> str:
        return f"{self._base}{pod.number + 1}"

    def train(self) -> None:
        """Start all pods, wait until those have ended that end by themselves, and look for the marker of this very run.

        Where our trainer trains, every step has a finite loss. What the pods serve is what dashboards and alerts ask for.
        """
        deadline = time.monotonic() + PATIENCE_SECONDS
        with Scraping([(self.address(pod), self.spec.http_port) for pod in self.pods]) as scraping:
            for pod in self.pods:
                self._start(pod, deadline)
            for pod, process, _ in self._processes:
                if not pod.ends:
                    continue
                status = status_by(deadline, process)
                assert status == 0, f"{pod.name} ended with {status}:\n{self.logs()}"
        assert_complete(self.spec, self.manifest.name, self.logs())
        expected = served_by(self.spec)
        assert scraping.names == expected, f"{sorted(scraping.names ^ expected)}\n{self.logs()}"

    def logs(self) -> str:
        return "\n".join(f"--- {pod.name}\n{log.read_text(errors='replace')}" for pod, _, log in self._processes)

    def mpi_hosts(self) -> None:
        """What the MPI Operator mounts: the host file."""
        self.at("/etc/mpi/hostfile").write_text(str(self._here(hostfile(self.pods))))

    def _start(self, pod: Pod, deadline: float) -> None:
        log = self._folder / f"{pod.name}.log"
        with log.open("wb") as file:
            for container in pod.before:
                status = status_by(deadline, self._begin(pod, container, file))
                assert status == 0, f"{container['name']} ended with {status}: {log.read_text(errors='replace')}"
            self._processes.append((pod, self._begin(pod, pod.container, file), log))

    def _begin(self, pod: Pod, container: Tree, output: IO[bytes]) -> subprocess.Popen[bytes]:
        added = added_variables(self.manifest, pod, self.pods, self._port_of) if container is pod.container else {}
        words = self._ssh(pod, [*container["command"], *container.get("args", [])])
        self._begun.append(subprocess.Popen(
            self._here(scale.command(words)), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            env={
                "PATH": os.pathsep.join([str(BIN), os.environ.get("PATH", os.defpath)]), "HOSTNAME": self.address(pod),
                **self._here(own_variables(pod, container, self.address(pod)) | added), **scale.VARIABLES,
                TERMINATION_PATH_ENV: str(self._folder / f"{pod.name}.json"),
            },
        ))
        return self._begun[-1]

    def _ssh(self, pod: Pod, words: Sequence[str]) -> list[str]:
        """ssh and sshd read the image's settings by the user's home in /etc/passwd: here they are told where the files are."""
        own = f"/home/mpiuser/sshd_config-{pod.number}"
        there = {"/home/mpiuser/.sshd_config": str(self._here(own))}
        return [
            f"{word} -F {self._here('/home/mpiuser/ssh_config')}" if last == "plm_rsh_args" else there.get(word, word)
            for last, word in zip(["", *words], words, strict=False)
        ]

    def _here(self, value: Any) -> Any:
        """The same with paths and names of hosts of this machine."""
        if isinstance(value, dict):
            return {key: self._here(part) for key, part in value.items()}
        if isinstance(value, list):
            return [self._here(part) for part in value]
        found = self._volumes.here(value)
        if not isinstance(value, str) or found != value:
            return found
        hosts = {name: self.address(pod) for pod in self.pods for name in pod.hosts}
        for name in sorted(hosts, key=len, reverse=True):
            value = value.replace(name, hosts[name])
        return value

    def _port(self, declared: object) -> int:
        return self._ports.setdefault(declared, free_port())

    def _port_of(self, pod: Pod) -> int:
        """Of the container's first port: its own for each pod of TensorFlow, whose servers listen on all addresses."""
        number, workload = pod.container["ports"][0]["containerPort"], self.manifest.workload
        alone = workload["kind"] == "TFJob" or "tensorflow" in workload["spec"].get("plugins", {})
        return self._port((number, pod.name) if alone else number)


class Scraping:
    """Asks all pods for their metrics again and again, as Prometheus does, only more often.

    Args:
        addresses: Host and port of each.
    """

    def __init__(self, addresses: Sequence[tuple[str, int]]) -> None:
        self._addresses, self._over, self.names = addresses, threading.Event(), set[str]()
        """Metrics of which a pod has served a sample."""
        self._thread = threading.Thread(target=self._ask, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()

    def _ask(self) -> None:
        while not self._over.wait(SCRAPE_SECONDS):
            for host, port in self._addresses:
                with suppress(OSError), urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=1) as answer:
                    families = text_string_to_metric_families(answer.read().decode())
                    self.names |= {family.name for family in families if family.samples}


def status_by(deadline: float, process: subprocess.Popen[bytes]) -> int | None:
    """Its exit code; None if it still runs then."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(max(1.0, deadline - time.monotonic()))
    return process.poll()


def assert_complete(spec: RunSpec, identity: str, logs: str) -> None:
    """The run left the marker of its identity, and where our trainer trained, every step had a finite loss."""
    assert spec.state_directory is not None
    complete = read_complete(Path(spec.state_directory))
    assert complete is not None, logs
    assert complete.identity == identity
    if isinstance(spec.work, Training):
        losses = [float(found["json"] or found["plain"]) for found in STEP.finditer(logs)]
        assert len(losses) >= (spec.work.duration.steps or 1), logs
        assert all(map(math.isfinite, losses)), logs
