"""MPIJob: bindings, objects, and what of them is whose."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from tests.compiler.example import EVERY_TARGET, Data, codes, command, compiled, findings, message, script
from tests.compiler.findings.page import overlay
from tests.compiler.objects import container, environment, lines_without_answer, needs_crds, problems_of, top, yaml_of

from trainwright.compile import CompiledRun
from trainwright.handshake import Binding, EnvironmentChannel, Needs, Refusal, Rendezvous, Success
from trainwright.operators.mpi_operator.emit import MPIJob
from trainwright.rendezvous.mpi import MPI

OPERATOR: Data = {"operators": {"mpi-operator": {"version": "0.8.2"}}}
GANG: Data = {
    "operators": {"mpi-operator": {"version": "0.8.2", "gang_scheduler": "volcano"}},
    "scheduling": {"gang": "volcano", "version": "1.15"},
}
HOROVOD: Data = {
    "target": "mpi-job", "topology": {"kind": "horovod", "nodes": 2, "gpus_per_node": 8},
}
NODE: Data = overlay(HOROVOD, {"topology": {"launcher_is_node": True}})
DDP: Data = {**HOROVOD, "topology": {"kind": "ddp", "nodes": 2, "gpus_per_node": 8, "mpi": "openmpi"}}
OPAQUE: Data = {**HOROVOD, **command("mpirun", "-np", "16", "--hostfile", "/etc/mpi/hostfile", "python", "train.py")}
FLAVOURS = {
    "horovod": HOROVOD, "launcher is node": NODE, "ddp": DDP, "command": OPAQUE,
    "intel": overlay(HOROVOD, {"topology": {"mpi": "intel"}}), "mpich": overlay(DDP, {"topology": {"mpi": "mpich"}}),
    "script": {**HOROVOD, **script("python", "train.py")},
    "one node": overlay(NODE, {"topology": {"nodes": 1}}),
}


def run(*changes: Data, cluster: Data = OPERATOR) -> CompiledRun:
    data: Any = {}
    for change in changes:
        data = overlay(data, change)
    return compiled(data, cluster)


def main(result: CompiledRun, role: str) -> Data:
    return container(result, "mpiReplicaSpecs", role)


def needs(mpi: MPI, nodes: int = 2) -> Needs:
    return Needs(nodes, 8, 8, Rendezvous.MPI_HOSTFILE, Success.LAUNCHER, of_rendezvous=mpi)


# Bindings.


@pytest.mark.parametrize("rendezvous", [kind for kind in Rendezvous if kind not in (Rendezvous.MPI_HOSTFILE, Rendezvous.NONE)])
def test_other_rendezvous_are_refused(rendezvous: Rendezvous) -> None:
    refusal = MPIJob().bind(needs(MPI("openmpi"))._replace(rendezvous=rendezvous, of_rendezvous=None), EVERY_TARGET)
    assert isinstance(refusal, Refusal)
    assert rendezvous.value in refusal.reason


def test_a_launcher_beside_the_nodes() -> None:
    binding = MPIJob().bind(needs(MPI("openmpi"), nodes=3), EVERY_TARGET)
    assert isinstance(binding, Binding)
    assert [(role.name, role.pods, role.holds_ranks) for role in binding.roles] == [("launcher", 1, False), ("worker", 3, True)]
    assert binding.rank_zero_host == "{name}-worker-0.{name}"
    assert binding.ranks.name == "worker"
    assert binding.environment is EnvironmentChannel.LAUNCHER
    assert "NVIDIA_VISIBLE_DEVICES" in binding.injects, "the operator empties it on a launcher without ranks"


def test_a_launcher_that_is_the_first_node() -> None:
    binding = MPIJob().bind(needs(MPI("openmpi", launcher_holds_ranks=True), nodes=3), EVERY_TARGET)
    assert isinstance(binding, Binding)
    assert [(role.name, role.pods, role.holds_ranks) for role in binding.roles] == [("launcher", 1, True), ("worker", 2, True)]
    assert binding.rank_zero_host == "{name}-launcher.{name}"
    assert "NVIDIA_VISIBLE_DEVICES" not in binding.injects


def test_alone_the_launcher_needs_no_worker() -> None:
    binding = MPIJob().bind(needs(MPI("mpich", launcher_holds_ranks=True), nodes=1), EVERY_TARGET)
    assert isinstance(binding, Binding)
    assert [role.name for role in binding.roles] == ["launcher"]
    assert binding.generated_names == ("{name}-launcher",)


@pytest.mark.parametrize(("mpi", "prefix"), [("openmpi", "OMPI_MCA_"), ("intel", "I_MPI_"), ("mpich", "HYDRA_")])
def test_each_mpi_is_told_in_its_own_variables(mpi: Any, prefix: str) -> None:
    binding = MPIJob().bind(needs(MPI(mpi)), EVERY_TARGET)
    assert isinstance(binding, Binding)
    assert {name for name in binding.injects if name.startswith(prefix)} == {
        name for name in binding.injects if not name.startswith(("K_MPI", "NVIDIA"))
    }


# Objects.


def test_one_run(snapshot: SnapshotAssertion) -> None:
    assert yaml_of(run(HOROVOD)) == snapshot


@needs_crds
@pytest.mark.parametrize("data", FLAVOURS.values(), ids=FLAVOURS)
@pytest.mark.parametrize("cluster", [OPERATOR, GANG], ids=["plain", "gang"])
def test_the_operator_takes_it(data: Data, cluster: Data) -> None:
    assert problems_of(run(data, cluster=cluster)) == []


@pytest.mark.parametrize("data", FLAVOURS.values(), ids=FLAVOURS)
@pytest.mark.parametrize("cluster", [OPERATOR, GANG], ids=["plain", "gang"])
def test_every_line_has_an_answer(data: Data, cluster: Data) -> None:
    assert lines_without_answer(run(data, cluster=cluster)) == []


@pytest.mark.parametrize("data", FLAVOURS.values(), ids=FLAVOURS)
def test_nothing_is_set_that_the_operator_sets(data: Data) -> None:
    result = run(data)
    for role in top(result)["spec"]["mpiReplicaSpecs"]:
        assert not environment(main(result, role)).keys() & result.resolution.binding.injects.keys()


def test_every_default_that_traps_is_written_out() -> None:
    spec = top(run(HOROVOD))["spec"]
    assert spec["slotsPerWorker"] == 8, "GPUs are not counted by the operator"
    assert spec["runPolicy"]["cleanPodPolicy"] == "Running", "by default workers keep their GPUs"
    assert spec["sshAuthMountPath"] == "/home/mpiuser/.ssh", "the default is root's"
    assert {name: (it["replicas"], it["restartPolicy"]) for name, it in spec["mpiReplicaSpecs"].items()} == {
        "Launcher": (1, "Never"), "Worker": (2, "OnFailure"),
    }


@pytest.mark.parametrize(("mpi", "name"), [("openmpi", "OpenMPI"), ("intel", "Intel"), ("mpich", "MPICH")])
def test_the_implementation_is_named(mpi: str, name: str) -> None:
    assert top(run(DDP, {"topology": {"mpi": mpi}}))["spec"]["mpiImplementation"] == name


def test_the_launcher_waits_for_workers_unless_a_gang_counts_it() -> None:
    assert top(run(HOROVOD))["spec"]["launcherCreationPolicy"] == "WaitForWorkersReady"
    spec = top(run(HOROVOD, cluster=GANG))["spec"]
    assert spec["launcherCreationPolicy"] == "AtStartup"
    assert spec["runPolicy"]["schedulingPolicy"] == {"minAvailable": 3, "queue": "default"}


def test_only_pods_that_hold_ranks_have_gpus() -> None:
    launcher, worker = main(run(HOROVOD), "Launcher"), main(run(HOROVOD), "Worker")
    assert launcher["resources"]["limits"] == {"cpu": "1", "memory": "2Gi"}
    assert worker["resources"]["limits"]["nvidia.com/gpu"] == "8"
    assert main(run(NODE), "Launcher")["resources"] == worker["resources"]
    assert top(run(NODE))["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] == 1


def test_only_pods_that_hold_ranks_have_shared_memory() -> None:
    for data, expected in ((HOROVOD, {"Launcher": False, "Worker": True}), (NODE, {"Launcher": True, "Worker": True})):
        replicas = top(run(data))["spec"]["mpiReplicaSpecs"]
        for role, there in expected.items():
            pod = replicas[role]["template"]["spec"]
            assert ("shm" in {volume["name"] for volume in pod["volumes"]}) is there
            assert ("shm" in {mount["name"] for mount in pod["containers"][0]["volumeMounts"]}) is there


def test_workers_run_sshd_as_a_user() -> None:
    opaque, ours = main(run(OPAQUE), "Worker"), main(run(HOROVOD), "Worker")
    sshd = ["/usr/sbin/sshd", "-D", "-e", "-f", "/home/mpiuser/.sshd_config", "-o", "PidFile=none", "-p", "2222"]
    assert opaque["command"] == sshd
    assert ours["command"] == ["trainwright-trainer", "supervise", "--", *sshd]
    for worker in (opaque, ours):
        assert worker["securityContext"]["readOnlyRootFilesystem"] is True
        assert worker["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}
    assert "add" not in main(run(HOROVOD), "Launcher")["securityContext"]["capabilities"]


def test_workers_are_ready_when_sshd_or_the_supervisor_is() -> None:
    assert main(run(OPAQUE), "Worker")["readinessProbe"]["tcpSocket"] == {"port": "ssh"}
    assert main(run(HOROVOD), "Worker")["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http"}
    assert "readinessProbe" not in main(run(OPAQUE), "Launcher")


def test_the_launcher_runs_mpirun_under_the_supervisor() -> None:
    words = main(run(HOROVOD), "Launcher")["command"]
    assert words[:4] == ["trainwright-trainer", "supervise", "--", "mpirun"]
    assert words[-3:] == ["python", "-m", "trainwright_trainer.rank"]
    assert words[words.index("-np") + 1] == "16"
    assert main(run(FLAVOURS["script"]), "Launcher")["command"][-2:] == ["python", "train.py"]
    assert main(run(OPAQUE), "Launcher")["command"][0] == "mpirun"


def test_a_secret_is_forwarded_by_its_name() -> None:
    result = run(HOROVOD, {"env": {"HF_TOKEN": {"secret": "hub", "key": "token"}, "MODE": "a value with 'quotes'"}})
    launcher, worker = main(result, "Launcher"), main(result, "Worker")
    named = [word for option, word in pairwise(launcher["command"]) if option == "-x"]
    assert {"HF_TOKEN", "MODE", "HOME", "PATH"} <= set(named)
    assert all(re.fullmatch(r"[A-Z_]+", name) for name in named), "names only, never a value"
    assert not any("quotes" in word or "hub" in word for word in launcher["command"])
    assert environment(launcher)["HF_TOKEN"] == {"secretKeyRef": {"name": "hub", "key": "token"}}
    assert "HF_TOKEN" not in environment(worker)


def test_a_program_of_ones_own_is_told_where_rank_0_is() -> None:
    for work in (command("mpirun", "train.sh"), {**script("python", "train.py")}):
        result = run({**DDP, **work})
        assert environment(main(result, "Launcher"))["MASTER_ADDR"] == f"{result.plan.name}-worker-0.{result.plan.name}"
        assert "MASTER_ADDR" not in environment(main(run({**HOROVOD, **work}), "Launcher")), "Horovod meets over MPI itself"
    result = run(DDP)
    assert "MASTER_ADDR" not in environment(main(result, "Launcher"))
    assert result.resolution.spec is not None
    assert f'"{result.plan.name}-worker-0.{result.plan.name}"' in result.resolution.spec.world.rendezvous.model_dump_json()


def test_on_the_network_of_the_node_sshd_has_a_port_of_the_run() -> None:
    security: Data = {"namespaces": {"training": {"pod_security": "privileged"}}}
    result = run(HOROVOD, {"host_network": True}, cluster=OPERATOR | security)
    port = next(port["containerPort"] for port in main(result, "Worker")["ports"] if port["name"] == "ssh")
    assert port != 2222
    assert main(result, "Worker")["command"][-1] == str(port)
    assert f"-o ConnectionAttempts=10 -p {port}" in main(result, "Launcher")["command"]


def test_what_it_keeps_is_said() -> None:
    others = ("restart of all ranks together", "exact resume", "resume at another size")
    assert run(HOROVOD).plan.guarantees == ("SIGTERM save", *others)
    assert run(OPAQUE).plan.guarantees == ()


# What is whose.


def test_names_that_the_operator_derives_must_fit() -> None:
    """They do for every run: the longest name of a run leaves room for the largest number of nodes."""
    longest = {**OPAQUE, "run": "n" * 40, "topology": {"kind": "horovod", "nodes": 4096, "gpus_per_node": 8}}
    result = run({**longest, **command("mpirun", "train.sh")})
    names = [pattern.format(name=result.plan.name) for pattern in result.resolution.binding.generated_names]
    assert [name.partition("-")[2] for name in names] == [f"{result.identity}-launcher", f"{result.identity}-worker-4095"]
    assert all(len(name) <= 63 for name in names)


@pytest.mark.parametrize(
    "patch",
    [
        {"slotsPerWorker": 4}, {"runLauncherAsWorker": True}, {"mpiImplementation": "Intel"}, {"sshAuthMountPath": "/root/.ssh"},
        {"launcherCreationPolicy": "AtStartup"}, {"runPolicy": {"suspend": True}}, {"runPolicy": {"ttlSecondsAfterFinished": 60}},
        {"runPolicy": {"cleanPodPolicy": "None"}}, {"runPolicy": {"backoffLimit": 9}},
        {"runPolicy": {"schedulingPolicy": {"minAvailable": 1}}},
        {"mpiReplicaSpecs": {"Worker": {"replicas": 5}}}, {"mpiReplicaSpecs": {"Launcher": {"restartPolicy": "OnFailure"}}},
        {"mpiReplicaSpecs": {"Worker": {"template": {"spec": {"hostname": "other"}}}}},
    ],
    ids=str,
)  # fmt: skip
def test_what_the_plan_owns_is_not_overridden(patch: Data) -> None:
    objects = [{"target": "mpi-job", "kind": "MPIJob", "patch": {"spec": patch}}]
    assert set(codes(overlay(HOROVOD, {"overrides": {"objects": objects}}), OPERATOR)) == {"TW601"}


def test_harmless_overrides_reach_object_and_pods() -> None:
    overrides = {
        "pod": {"launcher": {"priorityClassName": "high"}},
        "objects": [{"target": "mpi-job", "kind": "MPIJob", "patch": {"spec": {"runPolicy": {"activeDeadlineSeconds": 86400}}}}],
    }
    spec = top(run(HOROVOD, {"overrides": overrides}))["spec"]
    assert spec["runPolicy"]["activeDeadlineSeconds"] == 86400
    assert spec["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["priorityClassName"] == "high"
    assert "priorityClassName" not in spec["mpiReplicaSpecs"]["Worker"]["template"]["spec"]


def test_a_variable_of_the_operator_is_refused() -> None:
    taken = overlay(HOROVOD, {"env": {"OMPI_MCA_plm_rsh_args": "-p 22"}})
    assert "TW403" in [finding.code for finding in findings(taken, OPERATOR)]


def test_another_topology_is_refused_with_what_would_carry_it() -> None:
    said = message({"target": "mpi-job"}, OPERATOR)
    assert "MPIJob cannot run DDP" in said
    assert "indexed-job" in said
    assert "for kind ddp write `mpi: openmpi` in topology, and mpirun starts the ranks" in said


def test_a_script_is_started_as_it_is_written() -> None:
    """As on every other target. In a container's command Kubernetes would replace `$(NAME)`, and `$$` by `$`."""
    words = ("sh", "-c", "echo $$ $(HOME) $HOME")
    run: Data = {"target": "mpi-job", "topology": {"kind": "horovod", "nodes": 2, "gpus_per_node": 8}}
    manifests = compiled(run | script(*words), {"operators": {"mpi-operator": {"version": "0.8.2"}}}).manifests
    job = next(one for one in manifests if one["kind"] == "MPIJob")
    launched = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]["command"]
    assert launched[-3:] == ["sh", "-c", "echo $$$$ $$(HOME) $$HOME"]


def test_a_path_is_the_same_in_a_mount_and_in_a_variable() -> None:
    path = "/c$(HOME)"
    run = {"mounts": {"/checkpoints": None, path: {"claim": "checkpoints"}}, "checkpoints": {"mount": path}}
    job = next(one for one in compiled(command("torchrun", "x.py") | run).manifests if one["kind"] == "Job")
    container = job["spec"]["template"]["spec"]["containers"][0]
    (value,) = [it["value"] for it in container["env"] if it["name"] == "TRAINWRIGHT_CHECKPOINT_DIRECTORY"]
    assert value.startswith("/c$$(HOME)/")
    assert path in [mount["mountPath"] for mount in container["volumeMounts"]]
