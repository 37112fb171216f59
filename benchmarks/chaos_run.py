"""The run that chaos.py disturbs: two pods with a rank each on addresses of their own, its volume, and its processes."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path
from typing import Any, Literal

from tests.processes import is_running, own_network

from trainwright_trainer.checkpoint import CheckpointStore, CommitRecord
from trainwright_trainer.commands.local import LocalPod, LocalRun, free_ports
from trainwright_trainer.commands.local.pod import Event
from trainwright_trainer.commands.local.world import NODE_INDEX_ENV
from trainwright_trainer.contract import RunSpec
from trainwright_trainer.contract.layout import BIND_ENV

PODS = 2
STEPS, EVERY_STEPS = 300, 5
"""As long as some fifteen faults, and sixty commits."""
MARK_ENV = "TRAINWRIGHT_CHAOS"
"""In the environment of every process of a run: whoever is left is found by it, whatever its parent."""
PATIENCE_SECONDS = 180.0
"""For anything that the run is to do and that has no limit of its own: ranks import torch for seconds, more on a busy machine."""
POLL_SECONDS = 0.01


class BrokenPromiseError(Exception):
    """What must hold under any fault did not."""


Mode = Literal["whole-job", "in-place"]
MODES: tuple[Mode, ...] = ("whole-job", "in-place")


def specification(engine: str, folder: Path, network: str, mode: Mode = "whole-job") -> RunSpec:
    """A run of digits, small and with dropout, so that a wrong random state would show in its last bits."""
    rendezvous, control, http = free_ports(3)
    batch, clip_norm = {"micro": 16}, 0.5
    work: dict[str, Any] = {
        "kind": "trainer",
        "engine": engine,
        "task": "image-classification",
        "model": {
            "architecture": "vit", "image_size": 8, "patch_size": 4, "num_channels": 1, "hidden_size": 64, "num_labels": 10,
            "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 2, "dropout": 0.1,
        },
        "data": {"source": "digits"},
        "batch": batch,
        "optimizer": {"kind": "adamw"},
        "learning_rate": {"peak": 0.003, "warmup_samples": 64},
        "duration": {"steps": STEPS},
        "clip_norm": clip_norm,
        "precision": "fp32",
        "checkpoints": {"directory": str(folder / "lineage"), "every_steps": EVERY_STEPS},
        "evaluation": {"max_batches": 1},
        "log_every_steps": 50,
    }
    if engine == "deepspeed":
        work["deepspeed"] = {"config": str(_deepspeed_config(folder, batch["micro"], clip_norm))}
    # The brakes are tested elsewhere: here nothing but the faults may end a run.
    lifecycle: dict[str, Any] = {"grace_seconds": 120, "preflight": {"when": "never"}, "attempts_without_progress": 1000}
    if mode == "in-place":
        lifecycle["recovery"] = {"restarts": 10_000, "wait_seconds": 900}
    return RunSpec.model_validate({
        "run": "chaos",
        "identity": "chaos-1",
        "world": {
            "nodes": PODS, "processes_per_node": 1, "device": "cpu", "node_index_env": NODE_INDEX_ENV,
            "rendezvous": {"kind": "static", "host": f"{network}1", "port": rendezvous}, "control_port": control,
        },
        "lifecycle": lifecycle,
        "http_port": http,
        "work": work,
    })


def _deepspeed_config(folder: Path, micro: int, clip_norm: float) -> Path:
    """ZeRO-3, as the compiler renders it, for a small model."""
    path = folder / "ds_config.json"
    path.write_text(json.dumps({
        "train_batch_size": micro * PODS,
        "train_micro_batch_size_per_gpu": micro,
        "gradient_accumulation_steps": 1,
        "gradient_clipping": clip_norm,
        "bf16": {"enabled": False},
        "fp16": {"enabled": False},
        "data_types": {"grad_accum_dtype": "fp32"},
        "communication_data_type": "fp32",
        "prescale_gradients": False,
        "zero_optimization": {
            "stage": 3, "overlap_comm": False, "contiguous_gradients": True, "stage3_param_persistence_threshold": 100,
        },
        "zero_allow_untested_optimizer": True,
        "checkpoint": {"tag_validation": "FAIL"},
    }))
    return path


class ChaosRun:
    """One lineage, from its first attempt to its COMPLETE marker. Leave the ``with`` block to end what still runs."""

    def __init__(self, engine: str, folder: Path, mode: Mode) -> None:
        folder.mkdir(parents=True)
        self.folder, self._network = folder, own_network()
        self.spec = specification(engine, folder, self._network, mode)
        self._path = folder / "run.json"
        self._path.write_text(self.spec.model_dump_json(exclude_none=True))
        self.store = CheckpointStore(self.spec.state_directory or "")
        self.pods: list[LocalPod] = []
        self._attempts, self._life = count(), ExitStack()
        self._of_node_0: list[LocalPod] = []

    def __enter__(self) -> ChaosRun:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def control(self) -> tuple[str, int]:
        """Where node 0 listens for the other pods."""
        return f"{self._network}1", self.spec.world.control_port or 0

    @property
    def specification_bytes(self) -> bytes:
        return self._path.read_bytes()

    def start(self, before_the_rest: Callable[[], None] = lambda: None) -> None:
        """A new attempt: all pods, node 0 first."""
        self.end()
        folder = self.folder / f"attempt-{next(self._attempts)}"
        for node in range(PODS):
            self.pods.append(self._new_pod(folder / f"pod-{node}", node))
            if node == 0:
                before_the_rest()

    def replace(self, node: int) -> None:
        """A new pod for one that has ended."""
        self.pods[node] = self._new_pod(self.folder / f"attempt-{next(self._attempts)}" / f"pod-{node}", node)

    def _new_pod(self, place: Path, node: int) -> LocalPod:
        place.mkdir(parents=True)
        own = {
            NODE_INDEX_ENV: str(node), BIND_ENV: f"{self._network}{node + 1}", MARK_ENV: f"{self.folder}:{node}",
            "OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu", "TORCH_CPP_LOG_LEVEL": "ERROR",
        }
        pod = self._life.enter_context(LocalPod(LocalRun(self.spec, self._path), place, own))
        self._of_node_0 += [pod] if node == 0 else []
        return pod

    def end(self) -> None:
        """Kill whatever is left of the attempt."""
        for node in range(len(self.pods)):
            self.signal(node, signal.SIGKILL)
        self._life.close()
        self.pods = []

    def wait_for_control_port(self) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            with suppress(OSError), socket.create_connection(self.control, timeout=1):
                return
            time.sleep(POLL_SECONDS)
        raise BrokenPromiseError("node 0 never listened for the other pods")

    # --- what it has done -----------------------------------------------------------------------------------------------------

    @property
    def committed_step(self) -> int:
        """Of the newest commit on the volume; 0 where there is none."""
        steps = [_step(path) for path in (self.store.directory / "commits").glob("step-*.json")]
        return max(steps, default=0)

    @property
    def saves(self) -> bool:
        """Whether a save is under way: data of a step that is newer than every commit."""
        return max(map(_step, self.store.directory.glob("step-*")), default=0) > self.committed_step

    @property
    def told_steps(self) -> list[int]:
        """Of the commits that rank 0 has told of in this attempt."""
        return [int(event["step"]) for event in self.pods[0].heard("checkpoint_committed")]

    @property
    def restored_step(self) -> int:
        """What this attempt has gone on from; 0 where it began anew."""
        return next((int(event["step"]) for event in self.pods[0].heard("restored")), 0)

    def of_node_0(self) -> list[Event]:
        """Everything that node 0 has told since the first attempt, in order."""
        return [event for pod in self._of_node_0 for event in pod.events()]

    def attempts_left(self, node: int) -> int:
        """How often this pod has left an attempt and stayed."""
        return len(self.pods[node].heard("joins_another_attempt"))

    def heard(self, name: str) -> bool:
        return any(pod.heard(name) for pod in self.pods)

    def codes(self) -> list[int | None]:
        """Exit codes of the pods; None of one that runs."""
        return [pod.code for pod in self.pods]

    def records(self) -> tuple[CommitRecord, ...]:
        return self.store.records()

    # --- its processes --------------------------------------------------------------------------------------------------------

    def processes(self, node: int) -> list[int]:
        """All of a pod's that run, its supervisor among them."""
        mark = f"{MARK_ENV}={self.folder}:{node}\0".encode()
        return [pid for pid, environment in _environments() if mark in environment + b"\0" and is_running(pid)]

    def ranks(self, node: int) -> list[int]:
        """The pod's processes that are ranks."""
        return [pid for pid in self.processes(node) if "trainwright_trainer.rank" in _command(pid)]

    def everybody(self) -> list[int]:
        return [pid for node in range(PODS) for pid in self.processes(node)]

    def signal(self, node: int, number: signal.Signals) -> None:
        """Send a signal to every process of a pod, as a kernel does that freezes a container."""
        for pid in self.processes(node):
            send(pid, number)

    def words(self) -> str:
        """The last lines of its pods, for a person."""
        logs = sorted(self.folder.glob("attempt-*/pod-*/pod.log"), key=lambda path: path.stat().st_mtime)[-PODS:]
        return "\n".join(f"--- {log}\n" + "\n".join(log.read_text(errors="replace").splitlines()[-25:]) for log in logs)


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal to whoever may have ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _step(path: Path) -> int:
    return int(path.name.split(".")[0].removeprefix("step-"))


def _environments() -> Iterator[tuple[int, bytes]]:
    for place in Path("/proc").iterdir():
        if place.name.isdecimal():
            with suppress(OSError):
                yield int(place.name), (place / "environ").read_bytes()


def _command(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""
