"""Pods that do not communicate: no address, no gang, and each comes back by itself; rehearsed as real processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.compiler.example import codes, command, compiled, findings, message, script
from tests.compiler.objects import written
from tests.compiler.rehearsal.stage import play
from tests.compiler.targets import CASES, in_gangs, on, profile_for

from trainwright.operators.ending import Replace
from trainwright.report.plan import plan_lines

Data = dict[str, Any]
SHAPE: Data = {"kind": "independent", "nodes": 3, "gpus_per_node": 1}
SHARD = command("python", "/app/shard.py", "--shard", "$(NODE_RANK)", "--of", "$(NNODES)")
CARRIED = ("indexed-job", "job-set")
each_target = pytest.mark.parametrize("target", CARRIED)

PROGRAM = """
import os, pathlib, sys
out, shard = pathlib.Path("/checkpoints/shards"), sys.argv[1]
out.mkdir(exist_ok=True)
if shard == os.environ.get("FAILS"):
    sys.exit("this shard is broken")
tried = out / f"tried-{shard}"
if shard == "1" and not tried.exists():
    tried.touch()
    sys.exit(3)
print(f"shard {shard} of {os.environ['NNODES']}", "MASTER_ADDR" in os.environ)
"""


def run(target: str, **fields: Any) -> Data:
    return on(target, topology=SHAPE, **SHARD, **fields)


def job_of(target: str, **fields: Any) -> Data:
    (manifest,) = compiled(run(target, **fields), profile_for(target)).manifests
    spec: Data = manifest["spec"]
    return spec["replicatedJobs"][0]["template"]["spec"] if target == "job-set" else spec


@each_target
def test_pods_have_a_number_and_nobody_to_find(target: str) -> None:
    job = job_of(target)
    assert [job["completions"], job["parallelism"]] == [3, 3]
    pod = job["template"]["spec"]
    (container,) = pod["containers"]
    names = [variable["name"] for variable in container["env"]]
    assert {"NODE_RANK", "NNODES"} <= set(names)
    assert not [name for name in names if name.startswith(("PET_", "MASTER_", "NCCL_", "GLOO_"))]
    assert "subdomain" not in pod
    assert "ports" not in container
    assert not [name for name in container["resources"]["limits"] if "rdma" in name]


@each_target
def test_each_pod_comes_back_by_itself(target: str) -> None:
    job = job_of(target, restarts=2)
    assert job["backoffLimitPerIndex"] == 2
    assert not {"backoffLimit", "maxFailedIndexes"} & job.keys()
    assert [rule["action"] for rule in job["podFailurePolicy"]["rules"]] == ["Ignore"]


def test_a_job_set_never_starts_again() -> None:
    (manifest,) = compiled(run("job-set", restarts=2), profile_for("job-set")).manifests
    assert manifest["spec"]["failurePolicy"]["maxRestarts"] == 0
    assert manifest["spec"]["network"]["enableDNSHostnames"] is False


@pytest.mark.parametrize("gang", ["volcano", "coscheduling"])
def test_nobody_waits_for_a_gang(gang: str) -> None:
    assert compiled(run("indexed-job"), in_gangs(gang)).plan.gang is None
    assert compiled(on("indexed-job", topology=SHAPE | {"kind": "ddp"}, **SHARD), in_gangs(gang)).plan.gang is not None


def test_a_queue_of_volcano_counts_a_group_of_which_any_part_may_start() -> None:
    gang = compiled(run("indexed-job", queue="research"), in_gangs("volcano")).plan.gang
    assert gang is not None
    assert gang.minimum == 1


@each_target
def test_the_plan_says_it(target: str) -> None:
    lines = "\n".join(plan_lines(compiled(run(target, restarts=2), profile_for(target))))
    assert "independent pods" in lines
    assert "none: the pods are independent; each knows its number (NODE_RANK) and how many there are (NNODES)" in lines
    assert "2 of each pod, by itself; an evicted pod comes back, uncounted" in lines


@pytest.mark.parametrize("target", CASES.keys() - set(CARRIED))
def test_other_targets_say_why_not(target: str) -> None:
    (found,) = findings(on(target, topology=SHAPE, **SHARD), profile_for(target))
    assert found.code == "TW401"
    assert "enough for the rendezvous" not in found.message
    assert found.fix == "choose a target that brings back one pod without the others, or write target: indexed-job or job-set"


def test_only_a_command_fits() -> None:
    said = message({"topology": SHAPE})
    assert "its pods are independent, and that workload is for ranks that communicate; write" in said
    assert codes({"topology": SHAPE, **script("python", "x.py")}) == ["TW210"]


def test_a_command_that_looks_for_an_address_is_told_that_there_is_none() -> None:
    (found,) = findings(on("indexed-job", topology=SHAPE, **command("sh", "-c", "run $NODE_RANK $MASTER_ADDR")))
    assert (found.code, found.message.split(";")[0]) == ("TW457", "the command reads MASTER_ADDR")
    assert "do not communicate" in found.message


def small(**fields: Any) -> list[Data]:
    """On three pods without GPUs, with the program among the files of the run."""
    work = command("python", "/etc/run/shard.py", "$(NODE_RANK)")
    topology = SHAPE | {"gpus_per_node": 0}
    done = compiled(on("indexed-job", topology=topology, **work, files={"/etc/run/shard.py": PROGRAM}, **fields))
    return list(yaml.safe_load_all(written(done.manifests)))


def test_rehearsed_pods_take_their_shards_and_one_that_fails_comes_back_alone(tmp_path: Path) -> None:
    outcome, recorder = play(small(), tmp_path)
    assert outcome.exit_code == 0
    assert [line for index in range(3) for line in recorder.said(index) if "shard" in line] == [
        f"shard {index} of 3 False" for index in range(3)
    ]
    assert sorted(pod.index for pod in recorder.started) == [0, 1, 1, 2]
    assert [type(decision) for decision in recorder.decisions].count(Replace) == 1


def test_a_rehearsed_shard_that_stays_broken_leaves_the_others_alone(tmp_path: Path) -> None:
    outcome, recorder = play(small(env={"FAILS": "0"}, restarts=1), tmp_path)
    assert outcome.exit_code == 1
    assert [index for index in range(3) if f"shard {index} of 3 False" in recorder.said(index)] == [1, 2]
    assert [pod.index for pod in recorder.started].count(0) == 2
