"""Files of dist/ with one flaw each are refused before a pod starts, in the right words; without the flaw they are not."""

from __future__ import annotations

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from tests.compiler.rehearsal.stage import DIST, Manifest, of_kind, options

from trainwright.rehearsal import CannotWorkError
from trainwright.rehearsal.checks.machine import check_run
from trainwright.rehearsal.checks.manifests import check_objects
from trainwright.rehearsal.console import foundation_of
from trainwright.rehearsal.differences import leave_out_containers
from trainwright.rehearsal.stated.objects import find_objects, find_specification, objects_in

ROWS: list[dict[str, Any]] = YAML(typ="safe", pure=True).load(Path(__file__).with_name("broken.yaml"))
ONLY_THE_IMAGE = ("only the image has it", "ray: command not found")


def path_of(run: str) -> Path:
    return DIST / f"{run}.k8s.yaml"


@cache
def read(path: Path) -> list[Manifest]:
    return objects_in(path)


@cache
def around(run: str) -> list[Manifest]:
    return foundation_of(path_of(run))


def said_of(found: list[Manifest], run: str) -> list[str]:
    """Everything that a rehearsal says before a pod starts."""
    try:
        objects, _ = leave_out_containers(find_objects(found, around(run)), options())
        specification = find_specification(objects.config_maps)
        problems = [*check_run(objects), *check_objects(objects, specification, options())]
    except CannotWorkError as error:
        problems = list(error.problems)
    return [text for text in map(str, problems) if not any(one in text for one in ONLY_THE_IMAGE)]


def put(node: Any, pointer: str, value: Any) -> None:
    """Into data, or into the JSON text at what is before ``#``."""
    place, hash_sign, below = pointer.partition("#")
    *above, last = [part.replace("~1", "/") for part in place.split("/")[1:]]
    for part in above:
        node = node[int(part) if isinstance(node, list) else part]
    if hash_sign:
        document = json.loads(node[last])
        put(document, below, value)
        node[last] = json.dumps(document)
    elif last == "-":
        node.append(value)
    elif value is None:
        del node[int(last) if isinstance(node, list) else last]
    else:
        node[int(last) if isinstance(node, list) else last] = value


def broken(row: dict[str, Any]) -> list[Manifest]:
    found = copy.deepcopy(read(path_of(row["run"])))
    target = of_kind(found, row["of"])
    for pointer, value in row.get("set", {}).items():
        put(target, pointer, value)
    for name, value in row.get("env", {}).items():
        variables = target["spec"]["template"]["spec"]["containers"][0]["env"]
        variables[[one["name"] for one in variables].index(name)] = {"name": name, "value": value}
    return found


@pytest.mark.parametrize("row", ROWS, ids=[f"{row['run'].rpartition('/')[2]}-{number}" for number, row in enumerate(ROWS)])
def test_a_flaw_is_told_in_one_sentence(row: dict[str, Any]) -> None:
    said = said_of(broken(row), row["run"])
    assert any(row["says"] in one for one in said), said


RUNS = sorted(path.relative_to(DIST).as_posix().removesuffix(".k8s.yaml") for path in DIST.glob("*/*/runs/*.yaml"))


@pytest.mark.parametrize("run", RUNS)
def test_without_a_flaw_nothing_is_said(run: str) -> None:
    assert not said_of(read(path_of(run)), run)


def test_there_are_forty_and_more() -> None:
    assert len({row["says"] for row in ROWS}) >= 40


def test_an_init_container_that_waits_for_its_own_kind() -> None:
    """Its Service publishes a pod when that is ready, which none is before its init containers have ended."""
    run = "laptop/training/runs/digits-ddp"
    found = copy.deepcopy(read(path_of(run)))
    name = of_kind(found, "Job")["metadata"]["name"]
    waits = {"name": "wait", "image": "busybox", "command": ["sh", "-c", f"until nslookup {name}-0.{name}; do sleep 1; done"]}
    of_kind(found, "Job")["spec"]["template"]["spec"]["initContainers"] = [waits]
    assert not said_of(found, run)
    of_kind(found, "Service")["spec"]["publishNotReadyAddresses"] = False
    assert any("and none is before this has ended" in one for one in said_of(found, run))


def test_pods_that_train_alone_are_in_order() -> None:
    run = "h100-ib/training/runs/torchrun-command"
    alone = {"PET_NNODES": "1", "PET_NODE_RANK": "0", "PET_MASTER_ADDR": "localhost"}
    assert not said_of(broken({"run": run, "of": "Job", "env": alone}), run)


@pytest.mark.parametrize("text", [
    "while true; do test -f /data/ready && break; sleep 1; done", "timeout 5 tail -f /dev/null", "sleep infinity & echo started",
    "tail -f /data/log | grep -m 1 ready", '[ -n "$DEBUG" ] && sleep infinity; true', "while sleep 1; do false || exit; done",
    "python -m http.server & sleep 1", "until python -c 'import torch'; do sleep 1; done",
])  # fmt: skip
def test_an_init_container_that_ends_is_in_order(text: str) -> None:
    run = "laptop/training/runs/stdlib-lm"
    waits = {"name": "first", "image": "python", "command": ["sh", "-c", text]}
    assert not said_of(broken({"run": run, "of": "Job", "set": {"/spec/template/spec/initContainers": [waits]}}), run)


@pytest.mark.parametrize("probe", [{"tcpSocket": {"port": 2222}}, {"httpGet": {"port": "http", "path": "/readyz"}}])
def test_a_probe_of_a_worker_with_sshd_is_in_order(probe: dict[str, Any]) -> None:
    run = "kubeflow-a100/training/runs/vit-horovod"
    place = "/spec/mpiReplicaSpecs/Worker/template/spec/containers/0/readinessProbe"
    assert not said_of(broken({"run": run, "of": "MPIJob", "set": {place: probe}}), run)
