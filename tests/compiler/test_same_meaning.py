"""One run means the same on every target that numbers its pods: what controllers make of it, read off the objects and compared.

Host names are replaced by what they mean: ``@2`` is the third node. What is left must be equal: the ranks and their environment,
the rendezvous, what lies at which path, image, command, resources and the numbers of the batch.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.compiler.compiling import compile_data
from tests.compiler.controllers import Pod, pods
from tests.compiler.projects import ROOT
from tests.compiler.targets import CASES, carrying, in_gangs

from trainwright.findings.locate import at, tokens
from trainwright.reading.document import read_yaml
from trainwright_trainer.contract import RunSpec
from trainwright_trainer.contract.failures import PodError
from trainwright_trainer.contract.layout import SPEC_ENV, SUPERVISE_COMMAND
from trainwright_trainer.supervisor.place import pod_place
from trainwright_trainer.supervisor.pod.launcher import rank_environment

Data = dict[str, Any]
Meaning = Callable[[str], str]

TARGETS = carrying("ddp")
RUN = read_yaml(ROOT / "charts" / "runs" / "llama-finetune.yaml").data
GANGS = in_gangs("volcano")
BROUGHT: Data = {"restricted_containers": True, "init_image": "registry.example.com/alpine:3.20"}
CLUSTER = read_yaml(ROOT / "charts" / "clusters" / f"{RUN['cluster']}.yaml").data | {
    "scheduling": GANGS["scheduling"],
    "operators": {name: operator | BROUGHT for name, operator in GANGS["operators"].items()},
}
WORKS: dict[str, Data] = {
    "trainer": {"recovery": "whole-job"},  # Volcano knows no other
    "torchrun": {  # the same pods with somebody's own program in them, which reads what the controllers set
        "workload": {"kind": "command", "command": ["torchrun", "/app/train.py"]},
        "topology": {"kind": "ddp", "nodes": 4, "gpus_per_node": 8},
        "security": {"user": 1000},
        **dict.fromkeys(("batch", "learning_rate")),
    },
}
PLACE_VARIABLES = (
    "JOB_COMPLETION_INDEX", "PET_", "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
    *(name for case in CASES.values() for name in case.place_variables),
)  # fmt: skip
"""By which controllers tell a pod its place. Ranks get theirs from the supervisor, or from torchrun, and those are compared."""
CONTAINER_FIELDS = ("image", "command", "resources", "securityContext", "readinessProbe", "livenessProbe")
POD_FIELDS = (
    "terminationGracePeriodSeconds", "nodeSelector", "tolerations", "affinity", "schedulerName", "priorityClassName",
    "hostNetwork", "serviceAccountName", "automountServiceAccountToken", "imagePullSecrets", "securityContext",
    "enableServiceLinks",
)  # fmt: skip


@cache
def _compiled(target: str, work: str) -> list[Data]:
    run = {key: value for key, value in {**RUN, **WORKS[work], "target": target}.items() if value is not None}
    return list(compile_data(CLUSTER, run).manifests)


def objects(target: str, work: str) -> list[Data]:
    """The run's own objects; those that watch it are the same everywhere."""
    return [copy.deepcopy(one) for one in _compiled(target, work) if one["metadata"]["name"] != RUN["run"]]


def world(manifests: Sequence[Data]) -> Data:
    """What the objects of a run mean."""
    made = pods(manifests)
    config: dict[str, str] = next((one["data"] for one in manifests if one["kind"] == "ConfigMap"), {})
    spec = RunSpec.model_validate_json(config["run.json"]) if "run.json" in config else None
    nodes = {node_of(pod, spec): pod for pod in made}
    assert sorted(nodes) == list(range(len(made))), f"nodes {sorted(nodes)} of {len(made)} pods"
    name = next(one["metadata"]["name"] for one in manifests if one["metadata"]["name"].startswith(f"{RUN['run']}-"))

    def meant(text: str) -> str:
        for node, pod in nodes.items():
            text = text.replace(pod.host, f"@{node}")
        # opaque work has a directory of its own for each identity
        return text.replace(name, "@run").replace(name.rpartition("-")[2], "@identity")

    return {
        f"@{node}": {
            "ranks": [_plain(rank, meant) for rank in ranks_of(nodes[node], spec)],
            "paths": {
                mount["mountPath"]: content(mount, nodes[node], config, meant) for mount in nodes[node].container["volumeMounts"]
            },
            "ports": sorted(port["containerPort"] for port in nodes[node].container["ports"]),
            **{key: nodes[node].container.get(key) for key in CONTAINER_FIELDS},
            **{key: nodes[node].spec.get(key) for key in POD_FIELDS},
            "initContainers": nodes[node].written.get("initContainers"),
        }
        for node in sorted(nodes)
    }


def node_of(pod: Pod, spec: RunSpec | None) -> int:
    """The index of a pod, as our supervisor or torchrun finds it."""
    if spec is not None:
        node = pod_place(pod.environment, spec.world).node
        assert node is not None
        return node
    return int(pod.environment["PET_NODE_RANK"])


def ranks_of(pod: Pod, spec: RunSpec | None) -> list[dict[str, Any]]:
    """The environment of each rank of a pod."""
    inherited = {key: value for key, value in pod.environment.items() if not key.startswith(PLACE_VARIABLES)}
    if spec is None:
        return [inherited | rank for rank in by_torchrun(pod.environment)]
    assert tuple(pod.container["command"]) == SUPERVISE_COMMAND
    where = Path(pod.environment[SPEC_ENV])
    return [
        rank_environment(
            inherited, spec.world, node=node_of(pod, spec), local_rank=local, attempt="1", specification=where, link=3
        )
        for local in range(spec.world.processes_per_node)
    ]


def by_torchrun(pod: Mapping[str, str]) -> list[dict[str, str]]:
    """What torchrun sets in a static world (torch/distributed/run.py and elastic/agent/server/local_elastic_agent.py)."""
    nodes, each, node = (int(pod[f"PET_{name}"]) for name in ("NNODES", "NPROC_PER_NODE", "NODE_RANK"))
    address = {"MASTER_ADDR": pod["PET_MASTER_ADDR"], "MASTER_PORT": pod["PET_MASTER_PORT"]}
    return [
        {
            "RANK": str(node * each + local), "LOCAL_RANK": str(local),
            "WORLD_SIZE": str(nodes * each), "LOCAL_WORLD_SIZE": str(each), "GROUP_RANK": str(node),
            "GROUP_WORLD_SIZE": str(nodes), **address,
        }
        for local in range(each)
    ]  # fmt: skip


def content(mount: Data, pod: Pod, config: Mapping[str, str], meant: Meaning) -> Any:
    """What lies at a path: a claim and whether it can be written, empty space, or the run's own files."""
    (volume,) = [one for one in pod.spec["volumes"] if one["name"] == mount["name"]]
    source = {key: value for key, value in volume.items() if key != "name"}
    if "configMap" in source:
        source = {key: _file(text, meant) for key, text in config.items()}
    return {"source": source, "sub_path": mount.get("subPath"), "read_only": mount.get("readOnly", False)}


def _file(text: str, meant: Meaning) -> Any:
    data = _plain(json.loads(text), meant)
    if "world" in data:
        data["world"]["node_index_env"] = "the pod's index"
    return data


def _plain(value: Any, meant: Meaning) -> Any:
    return json.loads(meant(json.dumps(value)))


@pytest.mark.parametrize("target", TARGETS[1:])
@pytest.mark.parametrize("work", WORKS)
def test_a_run_means_the_same_on_another_target(target: str, work: str) -> None:
    assert world(objects(target, work)) == world(objects(TARGETS[0], work))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("work", WORKS)
def test_it_means_what_the_run_says(target: str, work: str) -> None:
    nodes, each = RUN["topology"]["nodes"], RUN["topology"]["gpus_per_node"]
    read = world(objects(target, work))
    ranks = [rank for node in read.values() for rank in node["ranks"]]
    assert [int(rank["RANK"]) for rank in ranks] == list(range(nodes * each))
    assert [(rank["LOCAL_RANK"], rank["GROUP_RANK"]) for rank in ranks] == [
        (str(r), str(n)) for n in range(nodes) for r in range(each)
    ]
    assert {(rank["MASTER_ADDR"], rank["MASTER_PORT"], rank["WORLD_SIZE"]) for rank in ranks} == {
        ("@0", "29500", str(nodes * each))
    }
    for node in read.values():
        assert node["image"] == RUN["image"]
        assert node["resources"]["limits"]["nvidia.com/gpu"] == str(each)
        assert node["paths"]["/data"] == {
            "source": {"persistentVolumeClaim": {"claimName": "training-dataset", "readOnly": True}},
            "sub_path": None, "read_only": True,
        }  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
def test_its_batch_is_the_same_in_every_file(target: str) -> None:
    files = world(objects(target, "trainer"))["@0"]["paths"]["/etc/trainwright"]["source"]
    batch, size = files["run.json"]["work"]["batch"], files["run.json"]["world"]
    effective = batch["micro"] * batch["accumulation"] * size["nodes"] * size["processes_per_node"]
    assert batch == RUN["batch"]
    assert files["ds_config.json"]["train_batch_size"] == effective == 1024


CHANGES = [(work, target, *change) for target in TARGETS for work, *change in CASES[target].changes]
"""One change in the objects of one target is a difference, or no world at all."""


@pytest.mark.parametrize(("work", "target", "kind", "pointer", "value"), CHANGES)
def test_another_meaning_is_seen(work: str, target: str, kind: str, pointer: str, value: Any) -> None:
    changed = objects(target, work)
    (manifest,) = [one for one in changed if one["kind"] == kind]
    parent, key = at(manifest, pointer.rpartition("/")[0]), tokens(pointer)[-1]
    assert at(manifest, pointer) is not None, "there is something to change"
    parent[int(key) if isinstance(parent, list) else key] = value
    try:
        read = world(changed)
    except (AssertionError, ValueError, LookupError, PodError):
        return
    assert read != world(objects(TARGETS[0], work))


@pytest.mark.parametrize("target", TARGETS)
def test_another_number_in_the_specification_is_seen(target: str) -> None:
    changed = objects(target, "trainer")
    config = next(one for one in changed if one["kind"] == "ConfigMap")
    spec = json.loads(config["data"]["run.json"])
    spec["world"]["rendezvous"]["port"] += 1
    config["data"]["run.json"] = json.dumps(spec)
    assert world(changed) != world(objects(TARGETS[0], "trainer"))
