"""Plays an opaque command from its manifests: each pod a process with an address of its own, and what the kubelet makes of it.

Nothing is scaled down and no option is changed: paths, names of hosts and the port of the rendezvous are those of this machine.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.engines.manifest_pods import Manifest, Pod, added_variables, own_variables
from tests.engines.processes import BIN, QUIET
from tests.processes import PATIENCE_SECONDS, own_network

from trainwright_trainer.commands.local import free_port

Tree = dict[str, Any]
_REFERENCE = re.compile(r"\$\$|\$\((\w+)\)")
PORT = "29500"


def play(manifests: Sequence[Tree], folder: Path, image: Path, path: Sequence[Path] = ()) -> list[str]:
    """Run all pods of a run to their end; returns what each has printed.

    Args:
        manifests: Of the run: its workload, and a ConfigMap where it has files.
        folder: For files and logs.
        image: What the image has at ``/app``.
        path: Where programs are looked for first.
    """
    manifest = _manifest(manifests)
    pods = _in_order(manifest.pods(2))
    here = _Here(manifest, pods, folder, image)
    here.write_files()
    running = list[tuple[subprocess.Popen[bytes], Path]]()
    search = os.pathsep.join([*map(str, path), str(BIN), os.environ.get("PATH", os.defpath)])
    try:
        for pod in pods:
            here.wait_for(pod.after)
            words, variables = here.started(pod)
            output = folder / f"{pod.name}.log"
            with output.open("wb") as file:
                process = subprocess.Popen(
                    words, cwd=folder, start_new_session=True, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                    env={"PATH": search, "HOME": str(folder), **variables, **QUIET},
                )
            running.append((process, output))
        return _ended(running, [pod.ends for pod in pods])
    finally:
        for process, _ in running:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _in_order(pods: Sequence[Pod]) -> list[Pod]:
    """Those first for which others wait."""
    waits_for = {pod.role: pod.after for pod in pods}

    def depth(role: str | None) -> int:
        return 0 if role is None else 1 + depth(waits_for[role])

    return sorted(pods, key=lambda pod: depth(pod.role))


def _ended(running: Sequence[tuple[subprocess.Popen[bytes], Path]], ends: Sequence[bool]) -> list[str]:
    """What each has printed; those that do not end by themselves are still there then."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    for process, output in (one for one, ending in zip(running, ends, strict=True) if ending):
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(1.0, deadline - time.monotonic()))
        everything = "\n".join(log.read_text(errors="replace") for _, log in running)
        assert process.poll() == 0, f"{output.stem} ended with {process.poll()}:\n{everything}"
    return [output.read_text(errors="replace") for _, output in running]


def _manifest(manifests: Sequence[Tree]) -> Manifest:
    runtime = next((one for one in manifests if one["kind"] == "TrainingRuntime"), None)
    files: Tree = next((one["data"] for one in manifests if one["kind"] == "ConfigMap"), {})
    [workload] = [one for one in manifests if one["kind"] in ("Job", "JobSet", "PyTorchJob", "TrainJob")]
    return Manifest(workload["metadata"]["name"], workload["metadata"]["namespace"], workload, files, runtime)


class _Here:
    """Names of the cluster and of the image -> those of this machine."""

    def __init__(self, manifest: Manifest, pods: Sequence[Pod], folder: Path, image: Path) -> None:
        self._manifest, self._pods, self._folder, self._port = manifest, pods, folder, free_port()
        base = own_network()
        self._addresses = {pod.name: f"{base}{place + 1}" for place, pod in enumerate(pods)}
        hosts = {name: self._addresses[pod.name] for pod in pods for name in pod.hosts}
        self._names = {
            "/app/": f"{image}/", **{f"{path}/": f"{folder}{path}/" for path in self._mounts()},
            **dict(sorted(hosts.items(), key=lambda pair: len(pair[0]), reverse=True)), PORT: str(self._port),
        }

    def _mounts(self) -> set[str]:
        return {str(Path(mount["mountPath"]).parent) for mount in self._files().values()}

    def _files(self) -> dict[str, Tree]:
        """Key of the ConfigMap -> the mount of it."""
        mounts = self._pods[0].container.get("volumeMounts", [])
        return {mount["subPath"]: mount for mount in mounts if mount.get("subPath") in self._manifest.files}

    def write_files(self) -> None:
        for key, mount in self._files().items():
            path = self._folder / mount["mountPath"].lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self._manifest.files[key])

    def wait_for(self, role: str | None) -> None:
        """Until all pods of a role are ready, as far as their probes tell."""
        for pod in (one for one in self._pods if one.role == role and one.ready_port):
            deadline = time.monotonic() + PATIENCE_SECONDS
            while not _listens(self._addresses[pod.name], pod.ready_port or 0):
                assert time.monotonic() < deadline, f"{pod.name} does not become ready"
                time.sleep(0.05)

    def started(self, pod: Pod) -> tuple[list[str], dict[str, str]]:
        """The words of a pod's command and its variables. References in ``env`` see what is above them, those in the command
        all, also what the controller has added (Kubernetes, pkg/kubelet/kubelet_pods.go)."""
        variables = dict[str, str]()
        for name, value in own_variables(pod, pod.container, self._names.get(pod.name, "")).items():
            variables[name] = self._here(_expanded(value, variables))
        variables |= {name: self._here(value) for name, value in self._added(pod).items()}
        words = [*pod.container["command"], *pod.container.get("args", [])]
        return [self._here(_expanded(word, variables)) for word in words], variables

    def _added(self, pod: Pod) -> dict[str, str]:
        return added_variables(self._manifest, pod, self._pods, lambda _: self._port)

    def _here(self, text: str) -> str:
        for there, here in self._names.items():
            text = text.replace(there, here)
        return text


def _listens(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), 1).close()
    except OSError:
        return False
    return True


def _expanded(text: str, variables: Mapping[str, str]) -> str:
    """``$$`` is a dollar sign, and a reference to what is not there stays (third_party/forked/golang/expansion)."""
    return _REFERENCE.sub(lambda found: "$" if found[0] == "$$" else variables.get(found[1], found[0]), text)
