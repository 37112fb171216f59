"""Variables whose values do not fit the container, or that no controller sets."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.compiler.example import Data, command, findings
from tests.compiler.findings.page import overlay
from tests.compiler.targets import on, profile_for

from trainwright.validate import validate_files

CODES = ("TW403", "TW408", "TW420", "TW457", "TW475", "TW477")
RUN = command("torchrun", "t.py")


def said(run: Data, cluster: Data | None = None) -> list[str]:
    return [f"{one.code} {one.severity.value}" for one in findings(run, cluster) if one.code in CODES]


@pytest.mark.parametrize(("value", "expected"), [
    ("0", ["TW475 error"]), ("0,1,2,3", ["TW475 error"]), ("0,1,2,3,4,5,6,9", ["TW475 error"]), ("-1", ["TW475 error"]),
    ("0,1,2,3,4,5,6,7", []), ("7,6,5,4,3,2,1,0", []),
])  # fmt: skip
def test_the_ranks_see_their_gpus(value: str, expected: list[str]) -> None:
    assert said({**RUN, "env": {"CUDA_VISIBLE_DEVICES": value}}) == expected
    assert said(command("env", f"CUDA_VISIBLE_DEVICES={value}", "torchrun", "t.py")) == expected


def test_programs_side_by_side_have_a_gpu_each() -> None:
    text = "CUDA_VISIBLE_DEVICES=0 python a.py & CUDA_VISIBLE_DEVICES=1 python b.py & wait $!"
    assert "TW475 error" not in said(command("bash", "-c", text))


@pytest.mark.parametrize(("name", "value", "security", "expected"), [
    ("HF_HOME", "/root/.cache", {"user": 1000, "read_only_root": False}, ["TW477 error"]),
    ("TRITON_CACHE_DIR", "/opt/triton", {"user": 1000, "read_only_root": True}, ["TW477 error"]),
    ("XDG_CACHE_HOME", "/opt/cache", {"user": 1000, "read_only_root": False}, []),
    ("TORCH_HOME", "/tmp/torch", {"user": 1000, "read_only_root": True}, []),
    ("HF_HOME", "/checkpoints/cache", {"user": 1000, "read_only_root": True}, []),
    ("HF_HOME", "/data/hub", {"user": 1000, "read_only_root": True}, ["TW477 warning"]),
    ("TRITON_CACHE_DIR", "/data/triton", {"user": 1000, "read_only_root": True}, ["TW477 error"]),
    ("DATA_HOME", "/root/data", {"user": 1000, "read_only_root": True}, []),
])  # fmt: skip
def test_caches_lie_where_they_can_be_written(name: str, value: str, security: Data, expected: list[str]) -> None:
    mounts = {"/checkpoints": {"claim": "checkpoints"}, "/data": {"claim": "checkpoints", "read_only": True}}
    run = {**RUN, "security": security, "mounts": mounts}
    assert said({**run, "env": {name: value}}) == expected
    if name == "HF_HOME" and value == "/data/hub":
        assert said({**run, "env": {name: value, "HF_HUB_OFFLINE": "1"}}) == []


def test_python_takes_0_for_no() -> None:
    assert said({**RUN, "env": {"PYTHONUNBUFFERED": "0"}}) == ["TW408 warning"]
    assert said({**RUN, "env": {"PYTHONUNBUFFERED": "1"}}) == []


@pytest.mark.parametrize(("kind", "env", "expected"), [
    ("efa", {"NCCL_NET_PLUGIN": "none"}, ["TW403 error"]),
    ("efa", {"NCCL_NET": "Socket"}, ["TW403 error"]),
    ("infiniband", {"NCCL_NET": "Socket"}, ["TW403 error"]),
    ("infiniband", {"NCCL_NET_PLUGIN": "none"}, []),
    ("efa", {"NCCL_NET": "AWS Libfabric"}, []),
])  # fmt: skip
def test_what_turns_the_fabric_off_contradicts_the_profile(kind: str, env: Data, expected: list[str]) -> None:
    fabric = {"kind": kind, "resource": "vpc.amazonaws.com/efa" if kind == "efa" else "rdma/ib"}
    found = said({**RUN, "env": env}, {"node_pools": {"h100": {"fabric": fabric}}})
    assert [one for one in found if not one.startswith("TW408")] == expected


@pytest.mark.parametrize("target", ["indexed-job", "job-set", "pytorch-job", "train-job", "volcano-job"])
@pytest.mark.parametrize(("name", "of"), [
    ("VC_TASKINDEX", ""), ("VC_TASK_INDEX", "volcano-job"), ("VC_WORKER_HOSTS", ""), ("SLURM_NODEID", ""),
    ("LWS_WORKER_INDEX", ""),
    ("JOB_COMPLETION_INDEX", "indexed-job job-set train-job"), ("OMPI_COMM_WORLD_RANK", ""), ("PET_NNODES", "*"),
])  # fmt: skip
def test_each_target_sets_its_own_variables(target: str, name: str, of: str) -> None:
    run = {**on(target), **command("bash", "-c", f"exec torchrun t.py --name ${name}")}
    wanted = [] if of == "*" or target in of.split() else ["TW457 error"]
    assert said(run, profile_for(target)) == wanted
    asked = command("bash", "-c", f'if [ -n "${name}" ]; then echo ${name}; fi; exec torchrun t.py ${{{name}:-1}}')
    assert said({**on(target), **asked}, profile_for(target)) == []


MPI: Data = {"target": "mpi-job", "topology": {"kind": "horovod", "nodes": 2, "gpus_per_node": 8}}
OPERATOR: Data = {"operators": {"mpi-operator": {"version": "0.8.2"}}}


@pytest.mark.parametrize(("port", "expected"), [("2222", ["TW420 error"]), ("2022", [])])
def test_mpirun_goes_to_the_port_of_sshd(port: str, expected: list[str], tmp_path: Path) -> None:
    mpirun = ["mpirun", "-np", "16", "--hostfile", "/etc/mpi/hostfile", "--mca", "plm_rsh_args", f"-p {port}", "python", "t.py"]
    sshd = {"roles": {"worker": {"command": ["/usr/sbin/sshd", "-De", "-p", "2022"]}}}
    assert said(overlay(MPI, command(*mpirun)) | sshd, OPERATOR) == expected
    manifest = {
        "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": "a"},
        "spec": {"slotsPerWorker": 8, "mpiReplicaSpecs": {
            "Launcher": {"template": {"spec": {"containers": [{"name": "l", "image": "x/y:1", "command": mpirun}]}}},
            "Worker": {"replicas": 2, "template": {"spec": {"containers": [
                {"name": "w", "image": "x/y:1", "command": sshd["roles"]["worker"]["command"]}]}}},
        }},
    }  # fmt: skip
    path = tmp_path / "job.yaml"
    path.write_text(str(manifest), encoding="utf-8")
    found = [f"{one.code} {one.severity.value}" for one in validate_files([path], None).findings if one.code == "TW420"]
    assert found == expected
