"""TrainJob whose ranks mpirun starts: a launcher, and workers that run sshd."""

from __future__ import annotations

import json
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from tests.compiler.controllers import Pod, pods
from tests.compiler.example import EVERY_TARGET, codes, command, compiled, findings, message, script
from tests.compiler.findings.page import overlay
from tests.compiler.objects import lines_without_answer, needs_crds, problems_of, the, variables, written
from tests.compiler.operators.train_jobs import COSCHEDULING, MOUNTS, NEEDS, TARGET, VERSIONS, VOLCANO, override, train, trainer

from trainwright.compile import CompiledRun
from trainwright.findings.locate import at
from trainwright.handshake import Binding, EnvironmentChannel, Guarantee, Needs, Refusal, Rendezvous, Success
from trainwright.operators.kubeflow_trainer.emit import TrainJob, patches_at
from trainwright.operators.kubeflow_trainer.runtime import pod_at
from trainwright.rendezvous.mpi import MPI, Mpirun

Data = dict[str, Any]

JOBS = "/spec/template/spec/replicatedJobs"
ANCESTOR = "/template/metadata/labels/trainer.kubeflow.org~1trainjob-ancestor-step"
OTHER = f"registry.example.com/other@sha256:{'0' * 64}"
HOROVOD: Data = {"topology": {"kind": "horovod", "nodes": 3, "gpus_per_node": 8}}
AS_NODE: Data = overlay(HOROVOD, {"topology": {"launcher_is_node": True}})
ALONE: Data = overlay(AS_NODE, {"topology": {"nodes": 1}})
MPIRUN: Data = {**HOROVOD, **command("mpirun", "-np", "24", "--hostfile", "/etc/mpi/hostfile", "python", "train.py")}
BY_MPI = NEEDS._replace(rendezvous=Rendezvous.MPI_HOSTFILE, success=Success.LAUNCHER, of_rendezvous=MPI("openmpi"))
CASES: dict[str, tuple[Data, Data]] = {
    "horovod": (HOROVOD, {}),
    "launcher is node": (AS_NODE, {}),
    "one node": (ALONE, {}),
    "ddp": (overlay(HOROVOD, {"topology": {"kind": "ddp", "mpi": "openmpi"}}), {}),
    "command": (MPIRUN, {}),
    "script": ({**HOROVOD, **script("python", "train.py")}, {}),
    "mounts": (overlay(HOROVOD, MOUNTS), {}),
    "secret": (overlay(HOROVOD, {"env": {"TOKEN": {"secret": "s", "key": "k"}, "MODE": "a b"}}), {}),
    "spot": (overlay(HOROVOD, {"node_pool": "spot"}), {}),
    "volcano": (overlay(HOROVOD, {"queue": "research"}), VOLCANO),
    "coscheduling": (AS_NODE, COSCHEDULING),
}
RELEASED = {
    f"{name} on {version}": (run, cluster, version)
    for name, (run, cluster) in CASES.items()
    for version in VERSIONS
}


# What it binds


def test_it_binds_a_launcher_beside_the_nodes() -> None:
    binding = TrainJob().bind(BY_MPI, EVERY_TARGET)
    assert isinstance(binding, Binding)
    assert [(role.name, role.pods, role.holds_ranks) for role in binding.roles] == [("launcher", 1, False), ("node", 4, True)]
    assert {role.container for role in binding.roles} == {"node"}
    assert [role.host for role in binding.roles] == ["{name}-launcher-0-0.{name}", "{name}-node-0-{index}.{name}"]
    assert binding.rank_zero_host == "{name}-node-0-0.{name}"
    assert binding.environment is EnvironmentChannel.LAUNCHER
    assert binding.part(Mpirun) == Mpirun(MPI("openmpi"), "TRAINWRIGHT_ROLE")
    assert {name for name in binding.injects if name.startswith("OMPI_MCA_")} == binding.injects.keys() - {"JOB_COMPLETION_INDEX"}
    assert binding.guarantees == frozenset(Guarantee)


def test_it_binds_a_launcher_that_is_a_node() -> None:
    binding = TrainJob().bind(BY_MPI._replace(of_rendezvous=MPI("openmpi", launcher_holds_ranks=True)), EVERY_TARGET)
    assert isinstance(binding, Binding)
    assert [(role.name, role.pods, role.holds_ranks) for role in binding.roles] == [("launcher", 1, True), ("node", 3, True)]
    assert binding.generated_names == ("{name}-launcher-0-0-abcde", "{name}-node-0-2-abcde")


def test_a_launcher_that_is_the_only_node_has_no_job_of_workers_beside_it() -> None:
    """The operator would make one worker at least (``max`` in mpi.go)."""
    binding = TrainJob().bind(BY_MPI._replace(nodes=1, of_rendezvous=MPI("openmpi", launcher_holds_ranks=True)), EVERY_TARGET)
    assert isinstance(binding, Binding)
    assert [(role.name, role.pods, role.host) for role in binding.roles] == [("node", 1, "{name}-launcher-0-0.{name}")]
    result = train(ALONE)
    (job,) = at(the(result, "TrainingRuntime"), JOBS)
    assert (job["name"], "dependsOn" in job) == ("launcher", False)
    assert at(job, ANCESTOR) == "trainer"
    assert the(result, "TrainJob")["spec"]["trainer"]["numNodes"] == 1


@pytest.mark.parametrize(
    ("needs", "words"),
    [
        (BY_MPI._replace(of_rendezvous=MPI("intel")), "kubeflow/trainer#3712"),
        (BY_MPI._replace(of_rendezvous=MPI("mpich")), "kubeflow/trainer#3712"),
        (BY_MPI._replace(success=Success.ALL_RANKS), "complete when the launcher ends with 0"),
    ],
)
def test_it_refuses_what_it_cannot_carry(needs: Needs, words: str) -> None:
    refusal = TrainJob().bind(needs, EVERY_TARGET)
    assert isinstance(refusal, Refusal)
    assert words in refusal.reason


# What it emits


def launched(result: CompiledRun) -> dict[str, Data]:
    """Replicated Jobs of the runtime by name, in their order."""
    return {job["name"]: job for job in at(the(result, "TrainingRuntime"), JOBS)}


def test_the_yaml(snapshot: SnapshotAssertion) -> None:
    result = train({**HOROVOD, "node_pool": "spot", "topology": {"kind": "horovod", "nodes": 2, "gpus_per_node": 1}})
    objects = [the(result, kind) for kind in ("TrainingRuntime", "TrainJob")]
    assert written(objects).replace(result.identity, "IDENTITY") == snapshot


def test_the_policy_says_what_the_operator_must_know_of_mpi() -> None:
    for run, holds in ((HOROVOD, False), (AS_NODE, True)):
        assert the(train(run), "TrainingRuntime")["spec"]["mlPolicy"] == {
            "numNodes": 1,  # of launchers, since theirs is the Job that trains
            "mpi": {
                "mpiImplementation": "OpenMPI", "numProcPerNode": 1, "runLauncherAsNode": holds,
                "sshAuthMountPath": "/home/mpiuser/.ssh",
            },
        }
    trainer_of = the(train(AS_NODE), "TrainJob")["spec"]["trainer"]
    assert (trainer_of["numNodes"], trainer_of["numProcPerNode"]) == (3, 8)


def test_the_launcher_starts_after_the_workers_unless_a_gang_counts_it() -> None:
    jobs = launched(train(HOROVOD))
    assert list(jobs) == ["node", "launcher"], "a JobSet lets no Job depend on a later one"
    assert jobs["launcher"]["dependsOn"] == [{"name": "node", "status": "Ready"}]
    assert "dependsOn" not in jobs["node"]
    result = train(HOROVOD, cluster=VOLCANO)
    assert not any("dependsOn" in job for job in launched(result).values())
    assert the(result, "TrainingRuntime")["spec"]["podGroupPolicy"] == {"volcano": {}}
    for place in (0, 1):
        assert at(the(result, "TrainingRuntime"), f"{pod_at(place)}/spec/schedulerName") == "volcano"


def test_the_run_is_done_when_the_launcher_is() -> None:
    spec = at(the(train(HOROVOD), "TrainingRuntime"), "/spec/template/spec")
    assert spec["successPolicy"] == {"operator": "All", "targetReplicatedJobs": ["launcher"]}
    jobs = launched(train(HOROVOD))
    assert [at(job, ANCESTOR) for job in jobs.values()] == [None, "trainer"]
    for job in jobs.values():
        codes_of = [rule["onExitCodes"]["containerName"] for rule in job["template"]["spec"]["podFailurePolicy"]["rules"][::2]]
        assert codes_of == ["node", "node"]
        assert at(job, "/template/spec/template/spec/containers/0/name") == "node"


@pytest.mark.parametrize(("run", "cluster", "version"), RELEASED.values(), ids=RELEASED)
def test_its_pods_are_those_of_an_mpi_job(run: Data, cluster: Data, version: str) -> None:
    """Read off the objects by what each operator does with them (operators/*/pods.py)."""
    result = train(run, version, cluster)
    gang = {"volcano": "volcano", "coscheduling": "scheduler-plugins-scheduler"}.get(cluster.get("scheduling", {}).get("gang"))
    operator = {"version": "0.8.2", **({"gang_scheduler": gang} if gang else {})}
    other = compiled({**run, "target": "mpi-job"}, {**cluster, "operators": {"mpi-operator": operator}})
    ours, theirs = (in_order(pods(each.manifests)) for each in (result, other))
    assert len(ours) == len(theirs) == sum(role.pods for role in result.resolution.binding.roles)
    for one, two in zip(ours, theirs, strict=True):
        spec, text = without_versions(one.written), json.dumps(without_versions(two.written))
        expected = json.loads(text.replace(other.plan.name, result.plan.name).replace(other.identity, result.identity))
        assert spec.pop("restartPolicy") == "Never"
        role = one.environment.pop("TRAINWRIGHT_ROLE")
        assert role == two.environment["K_MPI_JOB_ROLE"]
        main, wanted = spec["containers"][0], expected["containers"][0]
        main["env"] = [entry for entry in main["env"] if entry["name"] != "TRAINWRIGHT_ROLE"]
        copied = role == "worker" and run["topology"].get("launcher_is_node")
        env, planned = main.pop("env"), without_hosts(wanted.pop("env", []), other, result)
        assert [entry for entry in env if entry in planned] == planned
        assert copied or env == planned, "only workers beside a launcher that is a node have further ones: the launcher's"
        assert (main.pop("name"), wanted.pop("name")) == ("node", "mpi")
        for part in (main, wanted):
            part["volumeMounts"].sort(key=lambda mount: mount["mountPath"])
        assert spec == expected


def without_versions(spec: Data) -> Data:
    """The operator copies the path of a reference to a field, and not its version."""
    plain: Data = json.loads(json.dumps(spec).replace('"apiVersion": "v1", ', ""))
    return plain


def in_order(made: list[Pod]) -> list[Pod]:
    """The launcher, and then the others by their index."""
    return sorted(made, key=lambda pod: ("launcher" not in pod.host, pod.index))


def without_hosts(env: list[Data], other: CompiledRun, result: CompiledRun) -> Any:
    """Variables with the address of rank 0 as the other target has it."""
    theirs, ours = (each.resolution.binding.rank_zero_host.format(name=result.plan.name) for each in (other, result))
    return json.loads(json.dumps(env).replace(theirs, ours))


@needs_crds
@pytest.mark.parametrize(("run", "cluster", "version"), RELEASED.values(), ids=RELEASED)
def test_its_objects_are_valid(run: Data, cluster: Data, version: str) -> None:
    """Against the schema of 2.3; what a TrainJob of 2.1 says instead of patches is in no schema any more."""
    assert problems_of(train(run, version, cluster)) == []


@pytest.mark.parametrize(("run", "cluster", "version"), RELEASED.values(), ids=RELEASED)
def test_every_line_has_an_answer(run: Data, cluster: Data, version: str) -> None:
    assert lines_without_answer(train(run, version, cluster)) == []


@pytest.mark.parametrize(("run", "cluster"), CASES.values(), ids=CASES)
def test_no_variable_of_the_operator_is_set(run: Data, cluster: Data) -> None:
    result = train(run, cluster=cluster)
    assert not {*variables(list(result.manifests))} & result.resolution.binding.injects.keys()


def test_the_launchers_command_and_variables_are_the_run_s_and_the_image_the_runtimes() -> None:
    result = train(overlay(HOROVOD, {"env": {"MODE": "x"}}))
    trainer_of = the(result, "TrainJob")["spec"]["trainer"]
    assert trainer_of.keys() == {"numNodes", "numProcPerNode", "command", "env"}, "the operator has no workers in mind (#4030)"
    assert trainer_of["command"][3] == "mpirun"
    assert {"TRAINWRIGHT_ROLE", "MODE"} <= {entry["name"] for entry in trainer_of["env"]}
    text = json.dumps(the(result, "TrainingRuntime"))
    assert result.plan.name not in text
    assert result.run.run not in json.dumps(the(result, "TrainingRuntime")["metadata"])
    for place in (0, 1):
        assert at(the(result, "TrainingRuntime"), f"{pod_at(place)}/spec/containers/0/image") == result.run.image


SECRET, KEY = {"secret": "s", "key": "k"}, {"name": "s", "key": "k"}


def patched(role: str, value: str) -> Data:
    return {"overrides": {"pod": {role: {"containers": [{"name": "node", "env": [{"name": "WHO", "value": value}]}]}}}}


OWN: dict[str, tuple[Data, Any, Any]] = {
    "role alone": ({}, None, None),
    "a script": (script("python", "train.py"), None, None),
    "a command": (command("mpirun", "-np", "24", "--hostfile", "/etc/mpi/hostfile", "python", "train.py"), None, None),
    "the launcher's": ({"roles": {"launcher": {"env": {"WHO": "first"}}}}, "first", None),
    "the launcher's secret": ({"roles": {"launcher": {"env": {"WHO": SECRET}}}}, {"secretKeyRef": KEY}, None),
    "a worker's": ({"roles": {"node": {"env": {"WHO": "others"}}}}, None, "others"),
    "one of each": ({"roles": {"launcher": {"env": {"WHO": "first"}}, "node": {"env": {"WHO": "others"}}}}, "first", "others"),
    "all but the launcher": ({"env": {"WHO": "all"}, "roles": {"node": {"env": {"WHO": "others"}}}}, "all", "others"),
    "the launcher's by an override": (patched("launcher", "first"), "first", None),
    "a worker's by an override": (patched("node", "others"), None, "others"),
}
"""What a run states -> the value of WHO in the launcher, and in its workers."""


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("stated", "first", "others"), OWN.values(), ids=OWN)
def test_a_launcher_that_is_a_node_keeps_what_is_its_own(stated: Data, first: Any, others: Any, version: str) -> None:
    """The operator copies the variables of a TrainJob into the workers then, over their own."""
    result = train(overlay(AS_NODE, stated), version)
    launcher, *workers = in_order(pods(result.manifests))
    assert (launcher.environment["TRAINWRIGHT_ROLE"], launcher.environment.get("WHO")) == ("launcher", first)
    assert [(pod.environment["TRAINWRIGHT_ROLE"], pod.environment.get("WHO")) for pod in workers] == [("worker", others)] * 2
    assert result.identity not in json.dumps(the(result, "TrainingRuntime")), "runs of one shape share it"
    assert lines_without_answer(result) == []


def test_only_pods_that_hold_ranks_have_gpus() -> None:
    def limits(run: Data) -> list[str | None]:
        runtime = the(train(run), "TrainingRuntime")
        return [at(runtime, f"{pod_at(place)}/spec/containers/0/resources/limits/nvidia.com~1gpu") for place in (0, 1)]

    assert limits(HOROVOD) == ["8", None]
    assert limits(AS_NODE) == ["8", "8"]


def test_runs_by_mpirun_that_agree_share_a_runtime() -> None:
    one = train(HOROVOD)
    other = train(overlay(HOROVOD, {"run": "other", "topology": {"nodes": 5}, "env": {"A": "1"}, "team": "nlp"}))
    assert the(one, "TrainingRuntime") == the(other, "TrainingRuntime")
    assert one.identity != other.identity
    shapes = (HOROVOD, AS_NODE, ALONE, {"image": OTHER} | HOROVOD)
    assert len({the(train(run), "TrainingRuntime")["metadata"]["name"] for run in shapes}) == 4


def test_overrides_reach_the_launcher_and_the_workers() -> None:
    pod = {"launcher": {"priorityClassName": "high"}, "node": {"nodeSelector": {"zone": "a"}}}
    result = train({**HOROVOD, "overrides": {"pod": pod}})
    runtime = the(result, "TrainingRuntime")
    assert [at(runtime, f"{pod_at(place)}/spec/priorityClassName") for place in (0, 1)] == [None, "high"]
    assert [at(the(result, "TrainJob"), f"{patches_at(place)}/spec/nodeSelector") for place in (0, 1)] == [{"zone": "a"}, None]
    assert lines_without_answer(result) == []


def of_launcher(patch: Data) -> Data:
    return {"spec": {"template": {"spec": {"replicatedJobs": [{"name": "launcher", **patch}]}}}}


@pytest.mark.parametrize(
    "run",
    [
        override(kind="TrainingRuntime", patch={"spec": {"mlPolicy": {"mpi": {"sshAuthMountPath": "/root/.ssh"}}}}),
        override(kind="TrainingRuntime", patch={"spec": {"mlPolicy": {"mpi": {"runLauncherAsNode": True}}}}),
        override(kind="TrainingRuntime", patch={"spec": {"template": {"spec": {"successPolicy": {"operator": "Any"}}}}}),
        override(kind="TrainingRuntime", patch=of_launcher({"replicas": 2})),
        override(kind="TrainingRuntime", patch=of_launcher({"dependsOn": [{"name": "node", "status": "Complete"}]})),
        {"overrides": {"pod": {"launcher": {"restartPolicy": "OnFailure"}}}},
        {"overrides": {"pod": {"launcher": {"containers": [{"name": "node", "command": ["sleep"]}]}}}},
        {"overrides": {"pod": {"launcher": {"containers": [{"name": "node", "env": [{"name": "OMPI_MCA_plm_rsh_args"}]}]}}}},
        {"env": {"TRAINWRIGHT_ROLE": "worker"}},
        {"env": {"OMPI_MCA_orte_default_hostfile": "/app/hosts"}},
    ],
    ids=lambda run: json.dumps(run)[:100],
)
def test_what_the_plan_owns_of_a_launcher_stays(run: Data) -> None:
    assert codes({**TARGET, **HOROVOD, **run}, trainer("2.3.0")) in (["TW601"], ["TW403"])


def test_names_of_the_launchers_pods_are_checked_too() -> None:
    small = overlay(MPIRUN, {"topology": {"nodes": 2}}) | command("/app/start.sh")
    assert len(f"{train({**small, 'run': 'n' * 35}).plan.name}-launcher-0-0-abcde") == 63
    assert "TW402" in codes({**TARGET, **small, "run": "n" * 36}, trainer("2.3.0"))


def test_a_launcher_that_is_a_node_waits_for_its_own_name() -> None:
    """kubeflow/trainer#3783: mpirun takes itself for another host and tries ssh."""
    said = [finding.message for finding in findings({**TARGET, **MPIRUN, **overlay(MPIRUN, AS_NODE)}, trainer("2.3.0"))]
    assert any("DNS does not know it yet" in message for message in said)
    assert not any("DNS does not know" in it.message for it in findings({**TARGET, **MPIRUN}, trainer("2.3.0")))
    assert not any("DNS does not know" in it.message for it in findings({**TARGET, **AS_NODE}, trainer("2.3.0")))


def test_more_variables_than_fit_into_the_launchers_command_are_found() -> None:
    many = overlay(HOROVOD, {"env": {f"A{number}": "1" for number in range(60)}})
    assert message({**TARGET, **many}, trainer("2.3.0")).startswith("/env: mpirun is told ")
