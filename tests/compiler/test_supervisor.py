"""Where the supervisor of a script is: in its image, or brought along by the pods of every target that supervises."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from tests.compiler.example import RUN, Data, codes, command, compiled, findings, script
from tests.compiler.findings.page import overlay
from tests.compiler.objects import lines_without_answer, problems_of
from tests.compiler.targets import CASES, on, profile_for

from trainwright.compile import CompiledRun
from trainwright.manifest.provenance import split
from trainwright.operators import TARGETS
from trainwright.operators.base import run_pods
from trainwright.report.facts import plan_facts
from trainwright.report.plan import plan_rows
from trainwright.run import Run

IMAGE = "registry.example.com/tools/supervisor@sha256:" + "a" * 64
HAS_ONE: Data = {"supervisor": {"image": IMAGE, "in_images": []}}
FOLDER = "/trainwright-supervisor"
STARTS = [
    f"{FOLDER}/lib/ld.so", "--library-path", f"{FOLDER}/lib", f"{FOLDER}/bin/python3", "-I",
    "-m", "trainwright_trainer", "supervise",
]  # fmt: skip
IN_IMAGE = ["trainwright-trainer", "supervise"]
SHAPES: dict[str, Data] = {
    "ddp": {"kind": "ddp", "nodes": 2, "gpus_per_node": 8},
    "mpirun": {"kind": "ddp", "nodes": 2, "gpus_per_node": 8, "mpi": "openmpi"},
    "horovod": {"kind": "horovod", "nodes": 2, "gpus_per_node": 8},
    "tensorflow": {"kind": "multi-worker-mirrored", "nodes": 2, "gpus_per_node": 8},
    "trees": {"kind": "xgboost", "nodes": 2, "gpus_per_node": 0},
}
CARRIED = [
    ("indexed-job", "ddp"), ("job-set", "ddp"), ("pytorch-job", "ddp"), ("train-job", "ddp"), ("volcano-job", "ddp"),
    ("mpi-job", "mpirun"), ("mpi-job", "horovod"), ("train-job", "horovod"), ("volcano-job", "horovod"),
    ("tf-job", "tensorflow"), ("volcano-job", "tensorflow"), ("xgboost-job", "trees"), ("indexed-job", "trees"),
]  # fmt: skip


def work(**fields: Any) -> Data:
    return script("python", "x.py") | {"security": {"user": 1000}} | fields


def pods_of(result: CompiledRun) -> list[dict[str, Any]]:
    """Whole, as they are before a target keeps parts of them in a runtime."""
    target = TARGETS[result.plan.target]
    lowered = [split(tree)[0] for tree in target.lower(result.resolution)]
    return [dict(pod.found.spec) for pod in run_pods(target, result.resolution, lowered) if pod.role]


def unnamed(node: Any) -> str:
    """Without the hash of the run, which moves with what it brings."""
    return re.sub(r"example[-/][0-9a-z]{8}", "RUN", str(node))


def starts(node: Any) -> Iterator[list[str]]:
    """Every command that starts a supervisor, up to its own words."""
    if isinstance(node, list) and "supervise" in node:
        yield node[:node.index("supervise") + 1]
    elif isinstance(node, dict | list):
        for value in node.values() if isinstance(node, dict) else node:
            yield from starts(value)


def test_every_target_that_supervises_is_tried() -> None:
    assert {target for target, _ in CARRIED} == CASES.keys() - {"ray-job"}


@pytest.mark.parametrize("version", ["1.35", "1.36"])
@pytest.mark.parametrize(("target", "shape"), CARRIED)
def test_all_pods_that_are_supervised_bring_it(target: str, shape: str, version: str) -> None:
    """By an init container that copies it, or by a volume of its image, from the release on that executes what is in one."""
    run, cluster = on(target, **work(topology=SHAPES[shape])), profile_for(target) | {"kubernetes": version} | HAS_ONE
    result, usual = compiled(run, cluster), compiled(run | {"supervisor": "image"}, cluster)
    assert problems_of(result) == []
    assert lines_without_answer(result) == []
    assert list(starts(list(usual.manifests))) == [IN_IMAGE] * (count := len(list(starts(list(result.manifests)))))
    assert list(starts(list(result.manifests))) == [STARTS] * count
    assert count > 0
    for pod, before in zip(pods_of(result), pods_of(usual), strict=True):
        (volume,) = [one for one in pod["volumes"] if one["name"] == "supervisor"]
        assert {"name": "supervisor", "mountPath": FOLDER, "readOnly": True} in pod["containers"][0]["volumeMounts"]
        assert unnamed([one for one in pod["volumes"] if one != volume]) == unnamed(before["volumes"])
        assert unnamed(pod["containers"][0]["env"]) == unnamed(before["containers"][0]["env"])
        if version == "1.36":
            assert volume == {"name": "supervisor", "image": {"reference": IMAGE}}
            assert "initContainers" not in pod
        else:
            assert volume == {"name": "supervisor", "emptyDir": {"sizeLimit": "256Mi"}}
            (brings,) = pod["initContainers"]
            assert (brings["name"], brings["image"]) == ("bring-supervisor", IMAGE)
            assert brings["command"][0] == "/self/lib/ld.so"
            assert brings["command"][-1] == FOLDER


@pytest.mark.parametrize(
    ("supervisor", "images", "brought"),
    [
        (None, {}, False), (None, {"image": IMAGE}, True), ("image", {"image": IMAGE}, False),
        ("brought", {"image": IMAGE}, True),
        (None, {"image": IMAGE, "in_images": ["registry.example.com/trainwright"]}, False),
        (None, {"image": IMAGE, "in_images": ["registry.example.com/trainwright/trainer"]}, False),
        (None, {"image": IMAGE, "in_images": ["registry.example.com/train"]}, True),
        ("brought", {"image": IMAGE, "in_images": ["registry.example.com"]}, True),
    ],
)  # fmt: skip
def test_it_is_brought_where_the_image_is_not_known_to_have_it(
    supervisor: str | None, images: Data, brought: bool
) -> None:
    result = compiled(work(supervisor=supervisor), {"supervisor": {"in_images": [], **images}})
    assert (result.plan.supervisor is not None) == brought
    assert next(starts(list(result.manifests))) == (STARTS if brought else IN_IMAGE)
    assert plan_facts(result).get("supervisor") == (f"brought from {IMAGE}" if brought else supervisor)


def test_a_tag_is_no_part_of_an_image_s_name() -> None:
    known = {"supervisor": {"image": IMAGE, "in_images": ["registry.example.com:5000/trainer"]}, "registries": []}
    for name in ("registry.example.com:5000/trainer:2", "registry.example.com:5000/trainer:2@sha256:" + "a" * 64):
        assert compiled(work(image=name), known).plan.supervisor is None


COMMANDS = [
    ("indexed-job", "ddp"), ("job-set", "ddp"), ("pytorch-job", "ddp"), ("train-job", "ddp"), ("volcano-job", "ddp"),
    ("pytorch-job", "elastic"), ("job-set", "jax"), ("train-job", "jax"), ("mpi-job", "mpirun"), ("train-job", "mpirun"),
    ("volcano-job", "mpirun"), ("tf-job", "tensorflow"), ("xgboost-job", "trees"), ("indexed-job", "trees"),
]  # fmt: skip
ALSO: dict[str, Data] = {
    "elastic": SHAPES["ddp"] | {"elastic": {"min_nodes": 1, "max_nodes": 2}},
    "jax": {"kind": "jax", "nodes": 2, "gpus_per_node": 8},
}


@pytest.mark.parametrize(("target", "shape"), COMMANDS)
def test_a_command_that_asks_for_it_is_supervised(target: str, shape: str) -> None:
    """Its own words stand behind the supervisor's, as they are without one, and its pods are told the same."""
    program = "mpirun" if shape == "mpirun" else "torchrun"
    own = command(program, "--x=$(HOME)", "train.py") | {"security": {"user": 1000}, "topology": (SHAPES | ALSO)[shape]}
    run, cluster = on(target, **own, gang=shape != "mpirun"), profile_for(target) | HAS_ONE
    result, usual = compiled(run | {"supervisor": "brought"}, cluster), compiled(run, cluster)
    assert problems_of(result) == []
    assert lines_without_answer(result) == []
    assert usual.plan.supervisor is None
    assert result.plan.supervisor is not None
    for pod, before in zip(pods_of(result), pods_of(usual), strict=True):
        main, words = pod["containers"][0], before["containers"][0].get("command", [])
        if program not in words:
            assert main.get("command", []) == words
            continue
        assert main["command"] == [*STARTS, "--", *words]
        assert main["livenessProbe"]["httpGet"]["path"] == "/livez"
        told = [one for one in main["env"] if one["name"] not in ("TRAINWRIGHT_SPEC", "TRAINWRIGHT_BIND_ADDRESS")]
        assert unnamed(told) == unnamed(before["containers"][0]["env"])
    (spec,) = [json.loads(one["data"]["run.json"]) for one in result.manifests if "run.json" in one.get("data", {})]
    assert spec["work"]["kind"] == "command"


def test_one_verdict_is_where_the_pods_number_themselves() -> None:
    for target, shape, together in (("indexed-job", "ddp", True), ("job-set", "jax", True), ("mpi-job", "mpirun", False)):
        own = command("x") | {"topology": (SHAPES | ALSO)[shape], "supervisor": "brought", "security": {"user": 1000}}
        run = on(target, **own)
        result = compiled(run, profile_for(target) | HAS_ONE)
        assert (result.plan.guarantees == ("restart of all ranks together", "recovery in place")) == together
        assert (result.plan.control is not None) == together


def test_a_command_under_the_supervisor_recovers_in_place_and_has_its_settings() -> None:
    run = command("x") | {"supervisor": "brought", "recovery": "in-place", "peer_lost": "30s", "security": {"user": 1000}}
    result = compiled(run, HAS_ONE)
    assert result.plan.recovery is not None
    assert result.plan.recovery.in_place
    assert [one.code for one in findings(command("x") | {"peer_lost": "30s"})] == ["TW207"]
    with pytest.raises(ValueError, match="remove probes"):
        Run.model_validate(overlay(RUN, command("x") | {"supervisor": "brought", "probes": {"alive": {"http": "/", "port": 80}}}))
    with pytest.raises(ValueError, match="write command"):
        Run.model_validate(overlay(RUN, {"supervisor": "image", "workload": {"kind": "command", "args": []}}))


def test_variables_in_a_command_are_still_replaced_by_kubernetes() -> None:
    run = command("torchrun", "$(NO_SUCH)") | {"supervisor": "brought", "security": {"user": 1000}}
    (said,) = findings(run, HAS_ONE)
    assert "$(NO_SUCH), which stays as it is" in said.message
    assert [said.code] == codes(run | {"supervisor": None}, HAS_ONE)


def test_what_ray_starts_itself_is_not_supervised() -> None:
    ray = on("ray-job") | command("python", "driver.py")
    for where in ("brought", "image"):
        (said,) = [one for one in findings(ray | {"supervisor": where}, profile_for("ray-job") | HAS_ONE) if one.code == "TW268"]
        assert "job server" in said.message


def test_our_trainer_and_a_command_bring_nothing() -> None:
    for run in ({}, command("python", "x.py")):
        result = compiled(run, HAS_ONE)
        assert result.plan.supervisor is None
        assert "bring-supervisor" not in str(result.manifests)


def test_what_the_profile_says_of_volumes_wins_over_the_release() -> None:
    for version, mounted in (("1.34", True), ("1.37", False)):
        images = HAS_ONE["supervisor"] | {"mounted": mounted}
        result = compiled(work(), {"kubernetes": version, "supervisor": images})
        assert result.plan.supervisor is not None
        assert result.plan.supervisor.mounted == mounted
        assert [one.code for one in result.findings if one.code != "TW212"] == (["TW462"] if mounted else [])


def test_pods_that_nobody_supervises_bring_nothing() -> None:
    """A further role has a program and an image of its own."""
    evaluator = {"pods": 1, "command": ["python", "eval.py"], "resources": {"cpu": "1", "memory": "1Gi"}}
    run = on("job-set", **work(roles={"evaluator": evaluator}))
    pods = pods_of(compiled(run, profile_for("job-set") | HAS_ONE))
    assert sorted("initContainers" in pod for pod in pods) == [False, True]
    (other,) = [pod for pod in pods if "initContainers" not in pod]
    assert "supervisor" not in {one["name"] for one in other.get("volumes", [])}


def test_it_keeps_clear_of_a_claim_of_that_name() -> None:
    claims = {"supervisor": {"managed": False}, **overlay({}, {"checkpoints": {"storage_class": "nfs", "size": "2Ti"}})}
    result = compiled(work(mounts={"/own": {"claim": "supervisor"}}), HAS_ONE | {"namespaces": {"training": {"claims": claims}}})
    (pod,) = pods_of(result)
    names = [one["name"] for one in pod["volumes"]]
    assert len(set(names)) == len(names)
    assert {one["mountPath"]: one["name"] for one in pod["containers"][0]["volumeMounts"]}[FOLDER] == "supervisor-2"
    assert pod["initContainers"][0]["volumeMounts"] == [{"name": "supervisor-2", "mountPath": FOLDER}]
    assert problems_of(result) == []


def test_what_brings_it_may_not_be_changed_or_hidden() -> None:
    mine = {"name": "bring-supervisor", "kind": "init", "image": IMAGE, "cpu": "1", "memory": "1Gi"}
    assert codes(work(containers=[mine]), HAS_ONE) == ["TW601"]
    assert codes(work(mounts={FOLDER: {"scratch": "1Gi"}}), HAS_ONE) == ["TW233"]
    patch = {"overrides": {"pod": {"node": {"initContainers": [{"name": "bring-supervisor", "image": "other"}]}}}}
    (said,) = findings(work() | patch, HAS_ONE)
    assert said.code == "TW601"
    assert "supervisor: image" in said.fix


def test_its_image_is_judged_like_any_other() -> None:
    images = {"supervisor": {"image": "docker.io/supervisor:1", "in_images": []}}
    assert codes(work(), images) == ["TW305", "TW306"]
    assert all("/supervisor/image" in str(one.where) or "lab.yaml" in str(one.where) for one in findings(work(), images))


def test_head_and_workers_of_ray_bring_it() -> None:
    """The driver starts from it on the head, and parents of ranks on the workers; submitter and further roles need none."""
    readers = {"pods": 1, "resources": {"cpu": "1", "memory": "1Gi"}}
    run, cluster = on("ray-job") | work(roles={"readers": readers}), profile_for("ray-job") | HAS_ONE
    assert codes(run, cluster) == codes(run | {"supervisor": "image"}, cluster)
    (job,) = [one for one in compiled(run, cluster).manifests if one["kind"] == "RayJob"]
    assert job["spec"]["entrypoint"].split()[0].startswith(FOLDER)
    head, (workers, readers_group) = (job["spec"]["rayClusterSpec"][group] for group in ("headGroupSpec", "workerGroupSpecs"))
    brings = [
        "bring-supervisor" in str(pods) for pods in (head, workers, readers_group, job["spec"]["submitterPodTemplate"])
    ]
    assert brings == [True, True, False, False]


def test_the_pods_of_an_elastic_script_bring_it() -> None:
    elastic = on("pytorch-job", **work(topology=SHAPES["ddp"] | {"elastic": {"min_nodes": 1, "max_nodes": 2}}))
    cluster = profile_for("pytorch-job") | HAS_ONE
    assert codes(elastic | {"supervisor": "brought"}, cluster) == codes(elastic | {"supervisor": "image"}, cluster)
    assert compiled(elastic, cluster).plan.supervisor is not None


@pytest.mark.parametrize(
    ("run", "supervisor", "says"),
    [
        (script("x"), "none", "write kind: command"), ({}, "brought", "remove supervisor"), ({}, "none", "remove supervisor"),
    ],
)
def test_what_does_not_fit_the_work_is_refused(run: Data, supervisor: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Run.model_validate(overlay(RUN, run | {"supervisor": supervisor}))


def test_none_is_what_a_command_has() -> None:
    assert codes(command("python", "x.py") | {"supervisor": "none"}) == codes(command("python", "x.py"))


def test_the_plan_says_what_it_costs() -> None:
    row = dict(plan_rows(compiled(work(), HAS_ONE)))["image"]
    assert "copied by an init container" in row
    assert "registry.example.com/tools/supervisor" in row
    mounted = dict(plan_rows(compiled(work(), HAS_ONE | {"kubernetes": "1.36"})))["image"]
    assert "mounted from registry.example.com/tools/supervisor" in mounted
