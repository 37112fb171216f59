"""Volcano Job: what its controller is told, and what becomes of a pod that fails."""

from __future__ import annotations

from typing import Any

import pytest
from tests.compiler.compiling import compile_data
from tests.compiler.controllers import pods
from tests.compiler.example import EVERY_TARGET, codes, command, compiled, findings, script
from tests.compiler.objects import Data, assert_accepted, lines_without_answer, top, written
from tests.compiler.targets import CLUSTER, on, profile_for
from tests.pages import ROOT

from trainwright.cluster import Cluster
from trainwright.handshake import Binding, Elastic, Needs, Refusal, Rendezvous, Success
from trainwright.operators import operator
from trainwright.operators.operator import Around
from trainwright.operators.volcano.emit import VolcanoJob
from trainwright.reading.document import read_yaml
from trainwright_trainer.contract.exit_codes import EXIT_CODES, IN_PLACE, Disposition

NEEDS = Needs(
    nodes=4,
    processes_per_node=8,
    gpus_per_node=8,
    rendezvous=Rendezvous.STATIC,
    success=Success.ALL_RANKS,
)
PROFILE = profile_for("volcano-job")


def spec(run: Data | None = None, cluster: Data | None = None) -> Data:
    """Of the Job that a run becomes."""
    found: Data = top(compiled(on("volcano-job", **(run or {})), PROFILE | (cluster or {})))["spec"]
    return found


def action(policies: list[Data], code: int, event: str = "PodFailed") -> str:
    """The first match wins (pkg/controllers/job/job_controller_util.go, applyPolicies); nothing happens without one."""
    for policy in policies:
        if event in policy.get("events", ()) or policy.get("exitCode") == code:
            return str(policy["action"])
    return "SyncJob"


MADE = (Rendezvous.STATIC, Rendezvous.TF_CONFIG, Rendezvous.MPI_HOSTFILE)


@pytest.mark.parametrize("rendezvous", [kind for kind in Rendezvous if kind not in (*MADE, Rendezvous.NONE)])
def test_it_makes_no_other_rendezvous(rendezvous: Rendezvous) -> None:
    refusal = VolcanoJob().bind(NEEDS._replace(rendezvous=rendezvous), EVERY_TARGET)
    assert isinstance(refusal, Refusal)
    assert rendezvous.value in refusal.reason


def test_it_has_a_fixed_number_of_nodes() -> None:
    assert isinstance(VolcanoJob().bind(NEEDS._replace(elastic=Elastic(2, 8)), EVERY_TARGET), Refusal)


@pytest.mark.parametrize("scheduling", [{}, {"gang": "coscheduling", "version": "0.33"}])
def test_a_cluster_without_volcano_is_refused_and_not_left_without_a_gang(scheduling: Data) -> None:
    cluster = EVERY_TARGET.model_copy(update={"scheduling": Cluster.model_validate(_with(scheduling)).scheduling})
    assert isinstance(VolcanoJob().bind(NEEDS, cluster), Refusal)
    assert isinstance(VolcanoJob().bind(NEEDS, EVERY_TARGET), Binding)
    (found,) = findings(on("volcano-job"), CLUSTER | {"scheduling": scheduling})
    assert found.code == "TW401"
    assert "scheduling: {gang: volcano" in found.fix


def _with(scheduling: Data) -> Data:
    return {**EVERY_TARGET.model_dump(mode="json", exclude_none=True), "scheduling": scheduling}


@pytest.mark.parametrize("code", EXIT_CODES.keys() - IN_PLACE)
def test_a_permanent_code_ends_the_job_and_any_other_starts_all_pods_again(code: int) -> None:
    policies, disposition = spec()["policies"], EXIT_CODES[code].disposition  # type: ignore[index]
    if disposition is not Disposition.DONE:
        assert action(policies, code) == ("TerminateJob" if disposition is Disposition.PERMANENT else "RestartJob")
    assert action(policies, 0, "PodEvicted") == "RestartJob"
    assert action(policies, 137) == "RestartJob"


def test_the_codes_of_an_opaque_command_mean_nothing() -> None:
    run = command("torchrun", "train.py")
    assert spec(run)["policies"] == [{"action": "RestartJob", "events": ["PodFailed", "PodEvicted"]}]
    assert action(spec(script("train.py"))["policies"], 10) == "TerminateJob"


def test_a_command_may_read_the_lists_of_hosts_that_volcano_mounts() -> None:
    def said(file: str) -> list[str]:
        run = on("volcano-job", **MPI, **command("mpirun", "--hostfile", file, "-np", "24", "/a.sh"))
        return [one.message for one in findings(run, PROFILE) if one.code == "TW420"]

    assert said("/etc/volcano/worker.host") == said("/etc/mpi/hostfile") == []
    (refused,) = said("/etc/volcano/mpiworker.host")
    assert refused.startswith("/etc/volcano/mpiworker.host is not the host file of the run")


@pytest.mark.parametrize("restarts", [0, 3])
def test_volcano_counts_the_restart_that_it_does_not_make(restarts: int) -> None:
    """It compares retryCount, raised by each restart, with maxRetry, and takes 0 for 3 (mutate_job.go, state/restarting.go)."""
    assert spec({"restarts": restarts})["maxRetry"] == restarts + 1


def test_defaults_of_the_webhook_are_written_out() -> None:
    """What it would write is a difference that Argo CD sees (pkg/webhooks/admission/jobs/mutate/mutate_job.go)."""
    job = spec()
    assert {"queue", "schedulerName", "maxRetry", "minAvailable"} <= job.keys()
    assert all({"name", "minAvailable", "maxRetry"} <= task.keys() for task in job["tasks"])


@pytest.mark.parametrize(("gang", "minimum"), [(True, 2), (False, 1)])
def test_without_a_gang_pods_may_start_one_by_one_and_all_must_succeed(gang: bool, minimum: int) -> None:
    job = spec({"gang": gang})
    assert (job["minAvailable"], job["minSuccess"], job["tasks"][0]["replicas"]) == (minimum, 2, 2)


def test_queue_and_priority_are_those_of_the_group() -> None:
    job = spec({"queue": "gold", "priority": "high"}, {"scheduling": {**PROFILE["scheduling"], "scheduler_name": "gangs"}})
    assert (job["queue"], job["priorityClassName"], job["schedulerName"]) == ("gold", "high", "gangs")
    pod = job["tasks"][0]["template"]["spec"]
    assert (pod["schedulerName"], pod["priorityClassName"]) == ("gangs", "high")
    assert spec()["queue"] == "default"


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ({"maxRetry": 9}, ["TW601"]),
        ({"policies": []}, ["TW601"]),
        ({"plugins": {"ssh": []}}, ["TW601"]),
        ({"minAvailable": 1}, ["TW601"]),
        ({"ttlSecondsAfterFinished": 60}, ["TW601"]),
        ({"tasks": [{"name": "node", "replicas": 1}]}, ["TW601"]),
        ({"tasks": [{"name": "other", "replicas": 1}]}, ["TW601"]),
        ({"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}, []),
    ],
)
def test_an_override_reaches_what_the_plan_does_not_own(patch: Data, expected: list[str]) -> None:
    objects: list[Any] = [{"target": "volcano-job", "kind": "Job", "patch": {"spec": patch}}]
    assert sorted({*codes(on("volcano-job", overrides={"objects": objects}), PROFILE)}) == expected


@pytest.mark.parametrize("run", [{}, {"gang": False}, {"queue": "gold", "priority": "high"}, command("torchrun", "train.py")])
def test_every_line_has_an_answer(run: Data) -> None:
    assert lines_without_answer(compiled(on("volcano-job", **run), PROFILE)) == []


# Under mpirun, and TensorFlow

MPI: Data = {"topology": {"kind": "horovod", "nodes": 3, "gpus_per_node": 8}}
SHAPES: dict[str, Data] = {
    "horovod": MPI,
    "horovod, launcher is a node": {"topology": {**MPI["topology"], "launcher_is_node": True}},
    "horovod alone": {"topology": {**MPI["topology"], "nodes": 1, "launcher_is_node": True}},
    "intel": {"topology": {**MPI["topology"], "mpi": "intel"}},
    "mpich, no gang": {"topology": {**MPI["topology"], "mpi": "mpich"}, "gang": False},
    "mpi as root": {**command("mpirun", "--allow-run-as-root", "hello"), "topology": {**MPI["topology"], "kind": "mpi"},
                    "security": {"user": 0}},
    "mirrored": {**command("python", "train.py"), "topology": {"kind": "multi-worker-mirrored", "nodes": 3, "gpus_per_node": 8}},
    "mirrored, chief": {**command("python", "train.py"),
                        "topology": {"kind": "multi-worker-mirrored", "nodes": 3, "gpus_per_node": 8, "chief": True}},
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_is_valid_and_every_line_of_it_has_an_answer(shape: str) -> None:
    result = compiled(on("volcano-job", **SHAPES[shape]), PROFILE)
    for manifest in result.manifests:
        assert_accepted(manifest, result.cluster.kubernetes)
    assert lines_without_answer(result) == []


@pytest.mark.parametrize(("shape", "lines"), [
    ("horovod", ["{run}-worker-{i}.{run} slots=8"] * 3),
    ("horovod, launcher is a node", ["{run}-launcher-0.{run} slots=8", *["{run}-worker-{i}.{run} slots=8"] * 2]),
    ("horovod alone", ["{run}-launcher-0.{run} slots=8"]),
    ("intel", ["{run}-worker-{i}.{run}:8"] * 3),
])  # fmt: skip
def test_the_run_brings_its_host_file(shape: str, lines: list[str]) -> None:
    result = compiled(on("volcano-job", **SHAPES[shape]), PROFILE)
    (config,) = [one for one in result.manifests if one["kind"] == "ConfigMap"]
    workers = [line for line in lines if "worker" in line]
    expected = [line for line in lines if "launcher" in line] + [line.replace("{i}", str(i)) for i, line in enumerate(workers)]
    assert config["data"]["hostfile"].splitlines() == [line.replace("{run}", result.plan.name) for line in expected]
    launcher = next(pod for pod in pods(result.manifests) if pod.role == "launcher")
    assert "/etc/mpi/hostfile" in launcher.container["command"]
    assert "/etc/mpi/hostfile" in [mount["mountPath"] for mount in launcher.container["volumeMounts"]]


@pytest.mark.parametrize(("name", "engine"), [("nccl-training", "horovod"), ("resnet-train", "tensorflow")])
def test_the_yaml_that_engines_run_from_is_as_committed(name: str, engine: str) -> None:
    """Engines have no compiler beside them. An edit of the run or the profile is written there anew by this."""
    run = read_yaml(ROOT / "charts" / "runs" / f"{name}.yaml").data | {"target": "volcano-job"}
    cluster = read_yaml(ROOT / "charts" / "clusters" / "kubeflow-a100.yaml").data
    text = written(compile_data(cluster, run).manifests)
    file = ROOT / "tests" / "engines" / engine / "volcano.yaml"
    if not file.exists() or file.read_text(encoding="utf-8") != text:
        file.write_text(text, encoding="utf-8")
        pytest.fail(f"{file.name} was written anew: look at it and commit it")


@pytest.mark.parametrize("stated", [
    {"files": {"/etc/mpi/hostfile": "a"}}, {"roles": {"launcher": {"mounts": {"/etc/mpi": {"scratch": "1Gi"}}}}},
])  # fmt: skip
@pytest.mark.parametrize("target", ["volcano-job", "mpi-job"])
def test_nothing_hides_the_host_file(target: str, stated: Data) -> None:
    assert "TW233" in codes(on(target, **MPI, **stated), profile_for(target))


def test_keys_and_sshd_are_those_of_the_images_user() -> None:
    plugins = spec(MPI)["plugins"]
    assert plugins["ssh"] == ["--ssh-key-file-path=/home/mpiuser/.ssh", "--ssh-port=2222"]
    assert plugins["mpi"] == ["--master=launcher", "--worker=worker", "--port=2222"]
    as_root = spec(SHAPES["mpi as root"])
    assert as_root["plugins"]["ssh"] == []
    assert as_root["tasks"][1]["template"]["spec"]["containers"][0]["command"][0] == "/bin/sh"


def test_on_the_nodes_network_plugins_know_the_ports_of_the_run() -> None:
    job = spec({**MPI, "host_network": True})
    ports = job["tasks"][1]["template"]["spec"]["containers"][0]["ports"]
    port = next(one["containerPort"] for one in ports if one["name"] == "ssh")
    assert port != 2222
    assert job["plugins"]["ssh"][1] == f"--ssh-port={port}"
    assert job["plugins"]["mpi"][2] == f"--port={port}"


def test_the_run_is_done_when_its_launcher_is() -> None:
    job = spec(MPI)
    assert "minSuccess" not in job
    launcher, worker = job["tasks"]
    assert launcher["policies"] == [{"action": "CompleteJob", "event": "TaskCompleted"}]
    assert "policies" not in worker
    assert "dependsOn" not in launcher, "a gang counts the launcher"
    assert spec({**MPI, "gang": False})["tasks"][0]["dependsOn"] == {"name": ["worker"]}
    assert {policy.get("exitCode") for policy in job["policies"]} >= {10, 16}


def test_an_opaque_command_finds_the_host_file_as_where_an_operator_says_it() -> None:
    result = compiled(on("volcano-job", **SHAPES["mpi as root"]), PROFILE)
    launcher = next(pod for pod in pods(result.manifests) if pod.role == "launcher")
    assert launcher.environment["OMPI_MCA_orte_default_hostfile"] == "/etc/mpi/hostfile"


@pytest.mark.parametrize("chief", [False, True])
def test_workers_that_mirror_each_other_all_end(chief: bool) -> None:
    job = spec(SHAPES["mirrored, chief" if chief else "mirrored"])
    assert job["minSuccess"] == 3
    assert [task["name"] for task in job["tasks"]] == (["worker", "chief"] if chief else ["worker"])
    assert job["plugins"]["tensorflow"] == []


def test_the_pytorch_plugin_counts_masters_and_workers_alone() -> None:
    """pkg/controllers/job/plugins/distributed-framework/pytorch/pytorch.go, getTotalReplicas."""
    task: Data = {"replicas": 1, "template": {"spec": {"containers": [{"name": "one", "image": "example.com/one"}]}}}
    tasks = [{**task, "name": "master"}, {**task, "name": "worker", "replicas": 3}, {**task, "name": "logger", "replicas": 2}]
    job: Data = {
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "run"},
        "spec": {"plugins": {"pytorch": []}, "tasks": tasks},
    }
    containers = [pod.spec["containers"][0] for pod in operator.pods(job, Around()).pods]
    told = [{one["name"]: one.get("value") for one in container["env"]} for container in containers]
    assert [one["WORLD_SIZE"] for one in told] == ["4"] * 6
    assert [one.get("RANK") for one in told] == ["0", "1", "2", "3", None, None]
