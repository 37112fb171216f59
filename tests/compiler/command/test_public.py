"""The commands of public manifests: the grammar knows all of each, and a launcher is found where a person sees one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainwright.command.launchers import Launch, launches
from trainwright.command.model import Command
from trainwright.command.reading import read, script

MANIFESTS = os.environ.get("TRAINWRIGHT_MANIFESTS")
pytestmark = pytest.mark.skipif(not MANIFESTS, reason="TRAINWRIGHT_MANIFESTS names no folder of public manifests")

FOUND = {
    "jobset-resnet": ["torchrun --nproc-per-node --master-addr --master-port"],
    "mpijob-aws-nccl-tests": ["mpirun --allow-run-as-root --tag-output -np -N --bind-to -x --mca"],
    "mpijob-coreweave-h100": ["mpirun -np -bind-to -x"],
    "mpijob-horovod-mnist": ["mpirun -np --allow-run-as-root -bind-to -map-by -x -mca"],
    "mpijob-oke-h100": ["mpirun --allow-run-as-root -mca --hostfile -np -npernode --bind-to -x"],
    "mpijob-pi": ["mpirun -n"],
    "mpijob-tensorflow-benchmarks": ["mpirun --allow-run-as-root -np -bind-to -map-by -x -mca"],
    "pytorchjob-aws-composer": ["composer -n --world-size --node-rank --master-addr --master-port"],
    "pytorchjob-aws-llama3-8b-fsdp": ["torchrun --nproc-per-node --nnodes"],
    "trainjob-multi-node": ["torchrun --no-python"],
    "trainjob-runtime-patches": ["torchrun --no-python"],
    "vcjob-mpi": ["mpirun --allow-run-as-root --host -np"],
}
"""File -> its launchers with their options; the other files have none."""


def commands(node: Any) -> Iterator[Command]:
    if isinstance(node, dict):
        lists = [node[key] for key in ("command", "args") if isinstance(node.get(key), list)]
        if lists:
            yield read(tuple(str(word) for words in lists for word in words))
        if isinstance(node.get("entrypoint"), str):
            yield script(node["entrypoint"])
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from commands(child)


def in_files() -> dict[str, list[Command]]:
    files = sorted(Path(str(MANIFESTS)).glob("*.yaml"))
    return {path.stem: [command for data in yaml.safe_load_all(path.read_text()) for command in commands(data)] for path in files}


def told(launch: Launch) -> str:
    return " ".join([launch.name, *dict.fromkeys(option.name for option in launch.options)])


def test_every_command_can_be_read() -> None:
    read_here = [command for found in in_files().values() for command in found]
    assert len(read_here) >= 27
    assert all(command.whole for command in read_here)


def test_the_launchers_are_those_that_a_person_sees() -> None:
    found = {name: [told(launch) for command in here for launch in launches(command)] for name, here in in_files().items()}
    assert {name: launchers for name, launchers in found.items() if launchers} == FOUND
