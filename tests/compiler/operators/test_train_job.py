"""TrainJob: what it binds, what it emits, and what of it two runs share."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from tests.compiler.example import CLUSTER, EVERY_TARGET, RUN, TODAY, codes, command, compiled, findings, message
from tests.compiler.findings.page import overlay, write_example
from tests.compiler.objects import lines_without_answer, needs_crds, problems_of, the, variables, written
from tests.compiler.operators.train_jobs import COSCHEDULING, MOUNTS, NEEDS, TARGET, VERSIONS, VOLCANO, override, train, trainer

from trainwright.compile import CompiledRun
from trainwright.findings import CompileError
from trainwright.findings.locate import at
from trainwright.handshake import Binding, Elastic, Needs, Refusal, Rendezvous, Success
from trainwright.operators.kubeflow_trainer.emit import TrainJob, overrides_at, patches_at
from trainwright.operators.kubeflow_trainer.runtime import pod_at
from trainwright.overrides.merge import merge
from trainwright.project.build import build_project
from trainwright.project.load import Project, load_sources

POD, PATCHES, OVERRIDES = pod_at(0), patches_at(0), overrides_at(0)
Data = dict[str, Any]

BOOST: Data = {**command("python", "/app/boost.py"), "topology": {"kind": "xgboost", "nodes": 3, "gpus_per_node": 1}}

CASES: dict[str, tuple[Data, Data]] = {
    "ddp": ({}, {}),
    "one node": ({"topology": {"nodes": 1}}, {}),
    "cpu": ({"topology": {"gpus_per_node": 0, "processes_per_node": 4}}, {}),
    "mounts": (MOUNTS, {}),
    "command": (command("torchrun", "/app/train.py"), {}),
    "account": ({"service_account": "reader", "image_pull_secrets": ["registry"]}, {}),
    "secret": ({"env": {"TOKEN": {"secret": "s", "key": "k"}}}, {}),
    "spot": ({"node_pool": "spot"}, {}),
    "xgboost": (BOOST, {}),
    "volcano": ({"queue": "research"}, VOLCANO),
    "coscheduling": ({"priority": "high"}, COSCHEDULING),
}
RELEASED = {
    f"{name} on {version}": (run, cluster, version)
    for name, (run, cluster) in CASES.items()
    for version in VERSIONS
    if name != "xgboost" or version > "2.2"  # an earlier one has no policy for it: TW425
}


def patch_of(result: CompiledRun) -> Data:
    """What the TrainJob patches of the runtime's pods."""
    job = the(result, "TrainJob")
    return at(job, PATCHES) or {key: value for key, value in at(job, OVERRIDES).items() if key != "targetJobs"}


# What it binds


def test_it_binds_static_needs_as_the_operator_numbers_its_pods() -> None:
    binding = TrainJob().bind(NEEDS, EVERY_TARGET)
    assert isinstance(binding, Binding)
    (role,) = binding.roles
    assert (role.pods, role.container, role.host) == (4, "node", "{name}-node-0-{index}.{name}")
    assert binding.rank_zero_host == role.host.replace("{index}", "0")
    assert (binding.rendezvous_port, binding.fixed_port) == (29500, True)
    assert binding.node_index_env in binding.injects
    assert {"PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"} < binding.injects.keys()


def test_it_binds_a_tracker() -> None:
    binding = TrainJob().bind(NEEDS._replace(rendezvous=Rendezvous.DMLC_TRACKER), EVERY_TARGET)
    assert isinstance(binding, Binding)
    assert {"DMLC_TRACKER_URI", "DMLC_TRACKER_PORT", "DMLC_TASK_ID", "DMLC_NUM_WORKER"} < binding.injects.keys()
    assert not any(name.startswith("PET_") for name in binding.injects)


@pytest.mark.parametrize(
    ("needs", "words"),
    [
        (NEEDS._replace(rendezvous=Rendezvous.C10D, elastic=Elastic(1, 4)), "elastic"),
        (NEEDS._replace(rendezvous=Rendezvous.TF_CONFIG), "tf-config"),
        (NEEDS._replace(rendezvous=Rendezvous.RAY_HEAD), "ray-head"),
        (NEEDS._replace(success=Success.CHIEF), "the chief ends with 0"),
    ],
)
def test_it_refuses_what_it_cannot_carry(needs: Needs, words: str) -> None:
    refusal = TrainJob().bind(needs, EVERY_TARGET)
    assert isinstance(refusal, Refusal)
    assert words in refusal.reason
    assert len(refusal.alternative) > 10


# What it emits


@pytest.mark.parametrize("version", VERSIONS)
def test_the_yaml(version: str, snapshot: SnapshotAssertion) -> None:
    result = train({"topology": {"nodes": 2, "gpus_per_node": 1}, "node_pool": "spot"}, version)
    objects = [the(result, kind) for kind in ("TrainingRuntime", "TrainJob")]
    assert written(objects).replace(result.identity, "IDENTITY") == snapshot


@pytest.mark.parametrize(("run", "cluster", "version"), RELEASED.values(), ids=RELEASED)
def test_runtime_and_patch_make_the_pod_that_other_targets_write(run: Data, cluster: Data, version: str) -> None:
    """The pod of a JobSet, which is what the operator makes of the two."""
    result = train(run, version, cluster)
    job = the(result, "TrainJob")
    pod = merge(copy.deepcopy(at(the(result, "TrainingRuntime"), POD)), patch_of(result))
    container = pod["spec"]["containers"][0]
    fields = {key: value for key, value in job["spec"]["trainer"].items() if not key.startswith("num")}
    container |= {"resources" if key == "resourcesPerNode" else key: value for key, value in fields.items()}
    other = compiled({**run, "target": "job-set"}, {**cluster, "operators": {"jobset": {"version": "0.12"}}})
    text = json.dumps(at(the(other, "JobSet"), "/spec/replicatedJobs/0/template/spec/template"))
    expected = json.loads(text.replace(other.plan.name, result.plan.name).replace(other.identity, result.identity))
    expected["spec"]["containers"][0]["name"] = "node"
    for key in ("annotations", "labels"):  # the PodGroup that the operator makes itself
        for mark in ("scheduling.k8s.io/group-name", "scheduling.x-k8s.io/pod-group"):
            expected["metadata"].get(key, {}).pop(mark, None)
    if not expected["metadata"].get("annotations"):
        expected["metadata"].pop("annotations", None)
    main = expected["spec"]["containers"][0]
    main["env"] = [entry for entry in main["env"] if entry["name"] not in result.resolution.binding.injects]
    for part in (container, main):
        part["volumeMounts"].sort(key=lambda mount: mount["mountPath"])
    assert pod == expected


def test_the_run_states_what_is_its_own_and_the_runtime_the_rest() -> None:
    result = train(MOUNTS | {"service_account": "reader", "node_pool": "spot"})
    runtime, job = the(result, "TrainingRuntime"), the(result, "TrainJob")
    text = json.dumps(runtime)
    assert result.plan.name not in text
    assert result.run.image in text, "the Kubeflow SDK fails on a runtime without an image"
    assert result.run.run not in json.dumps(runtime["metadata"])
    assert job["spec"]["trainer"].keys() == {"numNodes", "numProcPerNode", "image", "command", "env", "resourcesPerNode"}
    assert type(job["spec"]["trainer"]["numProcPerNode"]) is int
    assert patch_of(result)["spec"].keys() == {
        "terminationGracePeriodSeconds", "nodeSelector", "tolerations", "serviceAccountName", "containers", "volumes",
    }
    pod = at(runtime, POD)
    assert "metadata" not in pod
    assert {"restartPolicy", "securityContext", "automountServiceAccountToken"} < pod["spec"].keys()
    assert {"ports", "readinessProbe", "livenessProbe", "securityContext"} < pod["spec"]["containers"][0].keys()


def test_the_grace_period_is_the_runtimes_before_a_patch_may_set_it() -> None:
    assert "terminationGracePeriodSeconds" in patch_of(train())["spec"]
    for version in ("2.1.0", "2.2.1"):
        result = train(version=version)
        assert "terminationGracePeriodSeconds" not in patch_of(result)["spec"]
        assert at(the(result, "TrainingRuntime"), f"{POD}/spec/terminationGracePeriodSeconds") == result.plan.grace.seconds


def test_the_second_mount_of_a_volume_is_the_runtimes_since_a_patch_knows_mounts_by_volume() -> None:
    result = train(MOUNTS)
    patched = [mount["name"] for mount in patch_of(result)["spec"]["containers"][0]["volumeMounts"]]
    assert sorted(patched) == sorted({*patched}) == ["checkpoints", "dataset", "shm", "spec", "tmp"]
    left = [mount["mountPath"] for mount in at(the(result, "TrainingRuntime"), f"{POD}/spec/containers/0/volumeMounts")]
    assert left == ["/app/a.txt", "/app/b.json", "/more"]


def test_the_policy_follows_from_the_rendezvous() -> None:
    assert the(train(), "TrainingRuntime")["spec"]["mlPolicy"] == {"numNodes": 1, "torch": {}}
    result = train(BOOST)
    assert the(result, "TrainingRuntime")["spec"]["mlPolicy"] == {"numNodes": 1, "xgboost": {}}
    assert the(result, "TrainingRuntime")["metadata"]["name"].startswith("xgboost-")
    assert the(result, "TrainJob")["spec"]["trainer"]["numNodes"] == 3


def test_the_operator_makes_the_group_of_a_gang_and_the_pods_name_the_scheduler() -> None:
    result = train({"queue": "research"}, cluster=VOLCANO)
    runtime = the(result, "TrainingRuntime")
    assert runtime["spec"]["podGroupPolicy"] == {"volcano": {}}
    assert runtime["spec"]["template"]["metadata"] == {"annotations": {"scheduling.volcano.sh/queue-name": "research"}}
    assert at(runtime, f"{POD}/spec/schedulerName") == "volcano"
    assert "PodGroup" not in [manifest["kind"] for manifest in result.manifests]
    runtime = the(train(cluster=COSCHEDULING), "TrainingRuntime")
    assert runtime["spec"]["podGroupPolicy"] == {"coscheduling": {"scheduleTimeoutSeconds": 60}}
    assert at(runtime, f"{POD}/spec/schedulerName") == "scheduler-plugins-scheduler"
    assert "podGroupPolicy" not in the(train(), "TrainingRuntime")["spec"]


@pytest.mark.parametrize(("run", "cluster"), CASES.values(), ids=CASES)
def test_no_variable_of_the_operator_is_set(run: Data, cluster: Data) -> None:
    result = train(run, cluster=cluster)
    assert not {*variables(list(result.manifests))} & result.resolution.binding.injects.keys()


def test_nothing_suspends_it_deletes_it_or_names_a_subdomain() -> None:
    text = json.dumps(train(MOUNTS, cluster=VOLCANO).manifests)
    for word in ("suspend", "ttlSecondsAfterFinished", "generateName", "subdomain", "activeDeadlineSeconds"):
        assert f'"{word}"' not in text


@needs_crds
@pytest.mark.parametrize(("run", "cluster", "version"), RELEASED.values(), ids=RELEASED)
def test_its_objects_are_valid(run: Data, cluster: Data, version: str) -> None:
    """Against the schema of 2.3; what a TrainJob of 2.1 says instead of patches is in no schema any more."""
    assert problems_of(train(run, version, cluster)) == []


@pytest.mark.parametrize(("run", "cluster", "version"), RELEASED.values(), ids=RELEASED)
def test_every_line_has_an_answer(run: Data, cluster: Data, version: str) -> None:
    assert lines_without_answer(train(run, version, cluster)) == []


def test_the_answers_moved_with_what_they_answer_for() -> None:
    result = train(MOUNTS | {"env": {"A": "1"}, "node_pool": "spot"})
    answers = dict(zip([manifest["kind"] for manifest in result.manifests], result.provenance(), strict=True))
    job, runtime = answers["TrainJob"], answers["TrainingRuntime"]
    index = [entry["name"] for entry in the(result, "TrainJob")["spec"]["trainer"]["env"]].index("A")
    assert job[f"/spec/trainer/env/{index}"].source == "run:/env/A"
    assert job["/spec/trainer/image"].source == "run:/image"
    assert job[f"{PATCHES}/spec/nodeSelector"].source == "cluster:/node_pools/spot/labels"
    mounts = patch_of(result)["spec"]["containers"][0]["volumeMounts"]
    place = [mount["mountPath"] for mount in mounts].index("/data")
    assert job[f"{PATCHES}/spec/containers/0/volumeMounts/{place}/mountPath"].source == "run:/mounts/~1data"
    assert runtime[f"{POD}/spec/containers/0/volumeMounts/2/mountPath"].source == "run:/mounts/~1more"
    for kind, known in answers.items():
        for pointer in known:
            assert at(the(result, kind), pointer) is not None, f"{kind}{pointer} answers for nothing"


# What two runs share


def test_runs_of_one_shape_share_a_runtime() -> None:
    one = train()
    other = train(
        {
            "run": "other",
            "team": "nlp",
            "topology": {"nodes": 4},
            "batch": {"micro": 2},
            "env": {"A": "1"},
            "labels": {"a": "b"},
            "pod_labels": {"c": "d"},
            "node_pool": "spot",
            "resources": {"cpu": 8},
        }
    )
    assert the(one, "TrainingRuntime") == the(other, "TrainingRuntime")
    assert one.identity != other.identity
    assert [one.manifests[index]["kind"] for index in one.shared] == ["TrainingRuntime"]


@pytest.mark.parametrize(
    ("run", "cluster"),
    [
        ({"restarts": 7}, {}),
        (command("torchrun", "/app/train.py"), {}),
        ({"overrides": {"pod": {"node": {"hostIPC": False}}}}, {}),
        ({}, VOLCANO),
        (BOOST, {}),
    ],
)
def test_another_shape_is_another_runtime_and_another_identity(run: Data, cluster: Data) -> None:
    one, other = train(), train(run, cluster=cluster)
    names = [the(result, "TrainingRuntime")["metadata"]["name"] for result in (one, other)]
    assert names[0] != names[1]
    assert one.identity != other.identity
    assert the(other, "TrainJob")["spec"]["runtimeRef"]["name"] == names[1]


def test_another_runtime_is_another_run_even_where_nothing_else_of_it_is_seen() -> None:
    assert train().identity != train({"restarts": 7}).identity
    assert train().identity == train({"labels": {"a": "b"}}).identity


def test_a_project_keeps_one_runtime_in_the_foundation(tmp_path: Path) -> None:
    project = tmp_path / "project"
    write_example((), project)
    (project / "charts" / "clusters" / "lab.yaml").write_text(
        json.dumps(overlay(CLUSTER, trainer("2.3.0"))), encoding="utf-8"
    )
    for name in ("example", "second"):
        data = overlay(RUN, {**TARGET, "run": name, "topology": {"nodes": 2 if name == "example" else 3}})
        (project / "charts" / "runs" / f"{name}.yaml").write_text(json.dumps(data), encoding="utf-8")
    build = build_project(load_sources(Project(project)), TODAY)
    assert not build.failed
    (foundation,) = build.foundations.values()
    assert [manifest["kind"] for manifest in foundation.output.manifests].count("TrainingRuntime") == 1
    for run in build.runs.values():
        assert [manifest["kind"] for manifest in run.output.manifests] == ["ConfigMap", "TrainJob"]


# Overrides


def test_an_override_of_the_pod_finds_its_way_by_the_same_table() -> None:
    pod = {
        "priorityClassName": "high",
        "nodeSelector": {"zone": "a"},
        "volumes": [{"name": "cache", "emptyDir": {}}],
        "containers": [{"name": "node", "volumeMounts": [{"name": "cache", "mountPath": "/cache"}]}],
    }
    result = train(override(pod=pod))
    assert at(the(result, "TrainingRuntime"), f"{POD}/spec/priorityClassName") == "high"
    spec = patch_of(result)["spec"]
    assert spec["nodeSelector"] == {"zone": "a"}
    assert {"name": "cache", "emptyDir": {}} in spec["volumes"]
    assert {"name": "cache", "mountPath": "/cache"} in spec["containers"][0]["volumeMounts"]
    assert lines_without_answer(result) == []


def test_an_override_of_a_variable_reaches_the_trainer() -> None:
    result = train(override(pod={"containers": [{"name": "node", "env": [{"name": "LEVEL", "value": "2"}]}]}))
    assert {"name": "LEVEL", "value": "2"} in the(result, "TrainJob")["spec"]["trainer"]["env"]


@pytest.mark.parametrize(
    "run",
    [
        override(patch={"spec": {"suspend": True}}),
        override(patch={"spec": {"trainer": {"numNodes": 9}}}),
        override(patch={"spec": {"trainer": {"env": [{"name": "PET_NNODES", "value": "9"}]}}}),
        override(patch={"spec": {"runtimeRef": {"name": "other"}}}),
        override(patch={"spec": {"runtimePatches": []}}),
        override(patch={"spec": {"initializer": {"dataset": {"storageUri": "s3://a/b"}}}}),
        override(kind="TrainingRuntime", patch={"metadata": {"name": "other"}}),
        override(kind="TrainingRuntime", patch={"spec": {"mlPolicy": {"numNodes": 9}}}),
        override(kind="TrainingRuntime", patch={"spec": {"podGroupPolicy": {"volcano": {}}}}),
        override(kind="TrainingRuntime", patch={"spec": {"template": {"spec": {"ttlSecondsAfterFinished": 60}}}}),
        override(kind="TrainingRuntime", patch={"spec": {"template": {"spec": {"network": {"subdomain": "a"}}}}}),
        override(kind="TrainingRuntime", patch={"spec": {"template": {"spec": {"failurePolicy": {"maxRestarts": 9}}}}}),
        override(pod={"restartPolicy": "OnFailure"}),
        override(pod={"terminationGracePeriodSeconds": 1}),
        override(pod={"containers": [{"name": "node", "image": "registry.example.com/other:1"}]}),
        override(pod={"containers": [{"name": "node", "env": [{"name": "PET_NNODES", "value": "9"}]}]}),
        override(pod={"containers": [{"name": "node", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}),
        override(pod={"volumes": [{"name": "spec", "emptyDir": {}}]}),
    ],
    ids=lambda run: json.dumps(run["overrides"])[:80],
)
def test_what_the_plan_owns_stays(run: Data) -> None:
    assert codes({**TARGET, **run}, trainer("2.3.0")) == ["TW601"]


def test_a_volume_of_the_run_can_be_mounted_by_a_sidecar() -> None:
    """The rules see the pod as a whole, though its volumes end up in another object than its sidecars."""
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
    security = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    sidecar = {
        "name": "logs", "image": RUN["image"], "restartPolicy": "Always", "resources": resources, "securityContext": security,
        "volumeMounts": [{"name": "checkpoints", "mountPath": "/checkpoints"}],
    }
    result = train(override(pod={"initContainers": [sidecar]}))
    assert at(the(result, "TrainingRuntime"), f"{POD}/spec/initContainers") == [sidecar]
    stray = {**sidecar, "volumeMounts": [{"name": "nothing", "mountPath": "/nothing"}]}
    assert codes({**TARGET, **override(pod={"initContainers": [stray]})}, trainer("2.3.0")) == ["TW603"]


# Names and releases


def test_names_that_the_jobset_derives_are_checked() -> None:
    many = {**command("torchrun", "/app/train.py"), "topology": {"nodes": 4096}}
    result = train({**many, "run": "n" * 36})
    assert len(f"{result.plan.name}-node-0-4095-abcde") == 63
    with pytest.raises(CompileError, match="TW402"):
        train({**many, "run": "n" * 37})


def test_a_release_without_the_policy_is_found() -> None:
    (finding,) = [finding for finding in findings({**TARGET, **BOOST}, trainer("2.1.0")) if finding.code == "TW425"]
    assert finding.where.pointer == "/operators/trainer/version"
    assert finding.message.startswith("Kubeflow Trainer 2.1.0 has no policy for XGBoost")
    assert "TW425" not in codes({**TARGET, **BOOST}, trainer("2.2.0"))


def test_a_release_that_makes_no_group_for_volcano_is_found() -> None:
    (finding,) = [finding for finding in findings(TARGET, trainer("2.0.1", VOLCANO)) if finding.code == "TW425"]
    assert finding.where.pointer == "/operators/trainer/version"
    assert "minMember 1" in finding.message
    assert "`gang: false`" in finding.fix
    others = [(TARGET, trainer("2.1.0", VOLCANO)), (TARGET, trainer("2.0.1", COSCHEDULING))]
    for run, cluster in (*others, ({**TARGET, "gang": False}, trainer("2.0.1", VOLCANO))):
        assert "TW425" not in codes(run, cluster)


@pytest.mark.parametrize(
    ("run", "place"),
    [
        (command("/app/start.sh", *["x"] * 128), "/workload/command"),
        (command("/app/start.sh", "x" * 65_537), "/workload/command/1"),
        ({"env": {f"A{number}": "1" for number in range(128)}}, "/env"),
        ({"image": f"registry.example.com/{'a' * 60}/{'b' * 460}@sha256:{'0' * 64}"}, "/image"),
    ],
)
def test_more_than_the_kind_takes_is_found_before_the_api_server_finds_it(run: Data, place: str) -> None:
    assert message({**TARGET, **run}, trainer("2.3.0")).startswith(f"{place}: ")
    assert codes({**TARGET, **run}, trainer("2.3.0")) == ["TW425"]
    assert codes({**TARGET, **run}, trainer("2.1.0")) == []


def test_operators_that_are_not_there_are_a_finding_each() -> None:
    assert codes(TARGET) == ["TW313", "TW313"]
    assert codes(TARGET, {"operators": {"jobset": {"version": "0.12.0"}}}) == ["TW313"]
