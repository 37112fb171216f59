"""Programs of MPI alone: the run's own mpirun, in a launcher of its own size, on slots that need not be GPUs."""

from __future__ import annotations

from typing import Any

import pytest
from tests.compiler.example import codes, command, compiled, findings, message
from tests.compiler.targets import CASES, on, profile_for

from trainwright.compile import CompiledRun
from trainwright.report.plan import plan_lines

Data = dict[str, Any]
SHAPE: Data = {"kind": "mpi", "nodes": 2, "gpus_per_node": 8}


def line(ranks: int, hostfile: str = "/etc/mpi/hostfile") -> Data:
    return command("mpirun", "-np", str(ranks), "--hostfile", hostfile, "all_reduce_perf", "-b", "8")


def run(topology: Data = SHAPE, ranks: int = 16, target: str = "mpi-job", **fields: Any) -> CompiledRun:
    return compiled(on(target, topology=topology, **line(ranks), **fields), profile_for(target))


def spec(result: CompiledRun) -> Data:
    found: Data = result.manifests[-1]["spec"]
    return found


def test_the_line_is_the_launchers_and_workers_wait_for_it() -> None:
    found = spec(run())
    launcher, worker = (
        found["mpiReplicaSpecs"][role]["template"]["spec"]["containers"][0] for role in ("Launcher", "Worker")
    )
    assert launcher["command"] == ["mpirun", "-np", "16", "--hostfile", "/etc/mpi/hostfile", "all_reduce_perf", "-b", "8"]
    assert "/usr/sbin/sshd" in " ".join(worker["command"])
    assert (found["slotsPerWorker"], found["runLauncherAsWorker"], found["mpiImplementation"]) == (8, False, "OpenMPI")
    assert [found["mpiReplicaSpecs"][role]["replicas"] for role in ("Launcher", "Worker")] == [1, 2]


def test_slots_need_not_be_gpus() -> None:
    assert spec(run(SHAPE | {"processes_per_node": 2}, ranks=4))["slotsPerWorker"] == 2
    assert spec(run(SHAPE | {"gpus_per_node": 0}, ranks=2))["slotsPerWorker"] == 1
    assert run(SHAPE | {"processes_per_node": 2}, ranks=4).plan.world.size == 4


def test_the_launcher_has_a_size_of_its_own_or_is_a_node() -> None:
    launcher = spec(run(roles={"launcher": {"resources": {"cpu": "3", "memory": "5Gi"}}}))["mpiReplicaSpecs"]["Launcher"]
    assert launcher["template"]["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "3", "memory": "5Gi"}
    node = spec(run(SHAPE | {"launcher_is_node": True}))
    assert node["runLauncherAsWorker"] is True
    assert node["mpiReplicaSpecs"]["Worker"]["replicas"] == 1


@pytest.mark.parametrize(("mpi", "implementation"), [("intel", "Intel"), ("mpich", "MPICH")])
def test_the_image_may_have_another_mpi(mpi: str, implementation: str) -> None:
    work = command("mpirun", "-n", "16", "IMB-MPI1")
    found = compiled(on("mpi-job", topology=SHAPE | {"mpi": mpi}, **work), profile_for("mpi-job"))
    assert spec(found)["mpiImplementation"] == implementation


def test_a_train_job_carries_it_too() -> None:
    roles = {role.name for role in run(target="train-job").resolution.binding.roles}
    assert roles == {"launcher", "node"}


def test_the_line_is_compared_with_the_plan() -> None:
    assert codes(on("mpi-job", topology=SHAPE, **line(32)), profile_for("mpi-job"))[0] == "TW420"
    assert codes(on("mpi-job", topology=SHAPE, **line(16, "/etc/hosts")), profile_for("mpi-job"))[0] == "TW420"


def test_the_plan_says_it() -> None:
    lines = "\n".join(plan_lines(run()))
    assert "MPI · MPIJob" in lines
    assert "none: the work is an opaque command" in lines


@pytest.mark.parametrize("target", CASES.keys() - {"mpi-job", "train-job", "volcano-job"})
def test_other_targets_refuse_it(target: str) -> None:
    (found,) = findings(on(target, topology=SHAPE, **line(16)), profile_for(target))
    assert found.code == "TW401"
    assert found.fix.endswith("target: train-job or mpi-job")


def test_only_a_command_fits() -> None:
    assert "mpirun starts a program that is not ours" in message({"topology": SHAPE, "target": "mpi-job"})
