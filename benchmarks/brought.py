"""What bringing the supervisor along costs a pod's start, beside a supervisor that its image has.

    .venv/bin/python -m benchmarks.brought build/supervisor.tar [ROUNDS]

From the root of the repository; `make image FAMILY=supervisor IMAGE_ARGS="--archive build/supervisor.tar"` writes the archive.
Prints megabytes to pull and unpacked, and the medians, over rounds in turns, of: the copy that an init container makes, by the
image's own Python; and a whole run of one pod whose script is `true`, under the supervisor that was brought and under that of
this environment. Pulling the image is not in it: that depends on the registry, and is once a node.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trainwright.images import read_archive
from trainwright_trainer.commands.local import free_port
from trainwright_trainer.contract.layout import BRING_MODULE, TRAINER_COMMAND, brought_command, brought_python

RUN: dict[str, Any] = {
    "run": "brought", "identity": "brought-00000000",
    "world": {
        "nodes": 1, "processes_per_node": 1, "device": "cpu", "node_index_env": "JOB_COMPLETION_INDEX",
        "rendezvous": {"kind": "static", "host": "127.0.0.1", "port": 29500}, "control_port": 29400,
    },
    "lifecycle": {"grace_seconds": 30},
    "work": {"kind": "script", "command": ["true"]},
}


def main(archive: Path, rounds: int) -> None:
    with tempfile.TemporaryDirectory(prefix="trainwright-brought-") as scratch:
        folder = Path(scratch, "image")
        pulled = unpack(archive, Path(scratch, "archive"), folder)
        unpacked = sum(path.lstat().st_size for path in folder.rglob("*"))
        (spec := Path(scratch, "run.json")).write_text(json.dumps(RUN | {"http_port": free_port()}), encoding="utf-8")
        clean = {
            "PATH": os.defpath, "JOB_COMPLETION_INDEX": "0", "TRAINWRIGHT_SPEC": str(spec),
            "TRAINWRIGHT_TERMINATION_PATH": str(Path(scratch, "message")),
        }
        own = (str(Path(sys.executable).with_name(TRAINER_COMMAND[0])), "supervise")
        figures: dict[str, list[float]] = {"copy": [], "brought": [], "of the image": []}
        for number in range(rounds + 1):
            copied = Path(scratch, f"pod-{number}")
            copied.mkdir()
            copy = seconds((*brought_python(str(folder)), "-m", BRING_MODULE, str(copied)), clean)
            taken = (copy, seconds((*brought_command(str(copied)), "supervise"), clean), seconds(own, clean))
            if number:  # the first round warms the disk cache
                for name, value in zip(figures, taken, strict=True):
                    figures[name].append(value)
    print(f"to pull {pulled / 1e6:.0f} MB, unpacked {unpacked / 1e6:.0f} MB")
    for name, values in figures.items():
        print(f"{name:14} {statistics.median(values):.2f} s, median of {rounds}")


def unpack(archive: Path, layout: Path, folder: Path) -> int:
    """The files of the image, as a kubelet's runtime lays them out; returns the bytes of its layers."""
    image = read_archive(archive, layout)
    layers = image.blobs[1:]
    for layer in layers:
        with tarfile.open(image.blob(layer["digest"])) as file:
            file.extractall(folder, filter="tar")
    return sum(layer["size"] for layer in layers)


def seconds(command: Sequence[str], environment: Mapping[str, str]) -> float:
    """Wall-clock time of a command that must succeed."""
    started = time.perf_counter()
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - started


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 10)
