"""Plays an opaque command from its manifests, and hands back what each pod has printed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.processes import PATIENCE_SECONDS

from trainwright.rehearsal import Observer, Options, rehearse
from trainwright.rehearsal.stated.pod import Pod

QUIET = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "JAX_PLATFORMS": "cpu"}


@dataclass
class Said(Observer):
    """Every line of a pod, by its number."""

    lines: dict[int, list[str]] = field(default_factory=dict)

    def pod_started(self, pod: Pod) -> None:
        self.lines.setdefault(pod.slot.number, [])

    def log_line(self, pod: Pod, container: str, line: str) -> None:
        self.lines.setdefault(pod.slot.number, []).append(f"{line}\n")


def play(manifests: Sequence[dict[str, Any]], folder: Path, image: Path, path: Path | None = None) -> list[str]:
    """Run all pods of a run to their end; returns what each has printed.

    Args:
        manifests: of the run: its workload, and all that it names.
        folder: for volumes and logs.
        image: what the image has at ``/app``.
        path: where programs are looked for before those of this environment.
    """
    said, own = Said(), Options()
    search = os.pathsep.join([str(own.programs), os.environ.get("PATH", os.defpath)])
    options = Options(
        timeout_seconds=PATIENCE_SECONDS, mounts={"/app": folder / "image"}, environment=os.environ | QUIET | {"PATH": search},
        programs=path or own.programs, pace=0.01, network="loopback",  # stand-ins for launchers meet in a folder of this machine
    )  # fmt: skip
    if not (copy := folder / "image").exists():  # pods may write there
        shutil.copytree(image, copy)
        (copy / "train.py").touch()
    outcome = rehearse(manifests, folder / "rehearsal", options, said)
    assert outcome.status == "Complete", f"{outcome.message}\n{said.lines}"
    return ["".join(said.lines[number]) for number in sorted(said.lines)]
