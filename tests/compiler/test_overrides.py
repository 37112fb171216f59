"""Overrides: what they may change, what the plan keeps, and that nothing slips through."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.compiler.example import Data, codes, command, compiled, findings, message, patched, pod

from trainwright.compile import CompiledRun
from trainwright.findings import CompileError
from trainwright.findings.locate import at
from trainwright.manifest.provenance import nearest
from trainwright.overrides.merge import merge_key

MAIN = "trainer"
GPU = "nvidia.com/gpu"


def main(**fields: Any) -> Data:
    return pod({"containers": [{"name": MAIN, **fields}]})


def template(**fields: Any) -> Data:
    return patched("Job", {"spec": {"template": fields}})


def job(**fields: Any) -> Data:
    return patched("Job", {"spec": fields})


OWNED: dict[str, tuple[Data, str]] = {
    "pods": (job(completions=8), "change topology.nodes"),
    "parallelism": (job(parallelism=1), "change topology.nodes"),
    "mode": (job(completionMode="NonIndexed"), "change topology.nodes"),
    "suspend": (job(suspend=True), "a queue controller suspends and resumes on its own"),
    "time to live": (job(ttlSecondsAfterFinished=100), "Argo CD would make a deleted Job again"),
    "generated name": (patched("Job", {"metadata": {"generateName": "x-"}}), "raise attempt"),
    "name": (patched("Job", {"metadata": {"name": "x"}}), "change run or namespace"),
    "namespace": (patched("Service", {"metadata": {"namespace": "x"}}), "change run or namespace"),
    "kind": (patched("Job", {"kind": "CronJob"}), "choose another target"),
    "back-off": (job(backoffLimit=3), "change restarts"),
    "back-off per index": (job(backoffLimitPerIndex=9), "change restarts"),
    "failed indexes": (job(maxFailedIndexes=2), "change restarts"),
    "failure rules": (job(podFailurePolicy={"rules": []}), "all ranks come back together"),
    "replacement": (job(podReplacementPolicy="TerminatingOrFailed"), "all ranks come back together"),
    "success rule": (job(successPolicy={"rules": [{"succeededCount": 1}]}), "all ranks come back together"),
    "selector": (job(selector={"matchLabels": {"a": "b"}}), "remove it"),
    "controller": (job(managedBy="example.com/other"), "remove it"),
    "spec": (patched("Job", {"spec": None}), "change topology.nodes"),
    "owner": (
        patched("Job", {"metadata": {"ownerReferences": [{"name": "x", "uid": "y", "kind": "Pod", "apiVersion": "v1"}]}}),
        "remove it",
    ),
    "status": (patched("Job", {"status": {"active": 1}}), "remove it"),
    "hook": (
        patched("Job", {"metadata": {"annotations": {"argocd.argoproj.io/hook": "Sync"}}}),
        "would run a finished run again",
    ),
    "wave": (patched("Job", {"metadata": {"annotations": {"argocd.argoproj.io/sync-wave": "1"}}}), "hold the sync"),
    "forced sync": (
        patched("Job", {"metadata": {"annotations": {"argocd.argoproj.io/sync-options": "Force=true,Replace=true"}}}),
        "remove it",
    ),
    "label": (patched("Job", {"metadata": {"labels": {"app.kubernetes.io/instance": "x"}}}), "use labels"),
    "all labels": (patched("Job", {"metadata": {"labels": None}}), "use labels"),
    "pod label": (template(metadata={"labels": {"batch.kubernetes.io/job-name": "x"}}), "use pod_labels"),
    "old pod label": (template(metadata={"labels": {"controller-uid": "x"}}), "use pod_labels"),
    "mesh label": (template(metadata={"labels": {"sidecar.istio.io/inject": "true"}}), "use pod_labels"),
    "service selector": (patched("Service", {"spec": {"selector": {"a": "b"}}}), "headless Service"),
    "service type": (patched("Service", {"spec": {"type": "NodePort"}}), "headless Service"),
    "cluster address": (patched("Service", {"spec": {"clusterIP": None}}), "headless Service"),
    "unready addresses": (patched("Service", {"spec": {"publishNotReadyAddresses": False}}), "before they are ready"),
    "service ports": (patched("Service", {"spec": {"ports": [{"name": "x", "port": 1}]}}), "the plan decides ports"),
    "specification": (patched("ConfigMap", {"data": {"run.json": "{}"}}), "the run's own fields"),
    "mutable specification": (patched("ConfigMap", {"immutable": False}), "the run's own fields"),
    "subdomain": (pod({"subdomain": "x"}), "by its index"),
    "node name": (pod({"nodeName": "node-1"}), "by its index"),
    "restart policy": (pod({"restartPolicy": "OnFailure"}), "change restarts"),
    "grace": (pod({"terminationGracePeriodSeconds": 1}), "write_mebibytes_per_second"),
    "service account": (pod({"serviceAccountName": "x"}), "change service_account"),
    "old service account": (pod({"serviceAccount": "x"}), "change service_account"),
    "token": (pod({"automountServiceAccountToken": True}), "change service_account"),
    "process namespace": (pod({"shareProcessNamespace": True}), "process 1"),
    "node's processes": (pod({"hostPID": True}), "process 1"),
    "ephemeral container": (pod({"ephemeralContainers": [{"name": "x", "image": "y"}]}), "initContainers"),
    "pool toleration": (pod({"tolerations": None}), "the pool's own tolerations stay"),
    "all containers": (pod({"containers": None}), "change image or workload"),
    "no containers": (pod({"containers": []}), "change image or workload"),
    "unnamed containers": (pod({"containers": [{"image": "x"}]}), "change image or workload"),
    "claim": (pod({"volumes": [{"name": "checkpoints", "emptyDir": {}}]}), "change mounts"),
    "all volumes": (pod({"volumes": None}), "change mounts"),
    "medium of shared memory": (pod({"volumes": [{"name": "shm", "emptyDir": {"medium": None}}]}), "resources.shared_memory"),
    "image": (main(image="x"), "change image or workload"),
    "command": (main(command=["x"]), "change image or workload"),
    "arguments": (main(args=["x"]), "change image or workload"),
    "port": (main(ports=[{"containerPort": 29500, "protocol": "UDP"}]), "the plan decides ports"),
    "another port": (main(ports=[{"containerPort": 8080}]), "the plan decides ports"),
    "GPUs": (main(resources={"limits": {GPU: "4"}}), "change topology.gpus_per_node"),
    "RDMA devices": (main(resources={"requests": {"rdma/shared": "4"}}), "change the fabric"),
    "memory": (main(resources={"limits": {"memory": "1Gi"}}), "change resources"),
    "all resources": (main(resources=None), "change resources"),
    "all limits": (main(resources={"limits": None}), "change resources"),
    "readiness": (main(readinessProbe=None), "go through the supervisor"),
    "start probe": (main(startupProbe={"tcpSocket": {"port": 1}}), "go through the supervisor"),
    "stop hook": (main(lifecycle={"preStop": {"sleep": {"seconds": 30}}}), "SIGTERM"),
    "message": (main(terminationMessagePath="/tmp/x"), "go through the supervisor"),
    "mount": (main(volumeMounts=[{"mountPath": "/checkpoints", "name": "tmp"}]), "change mounts"),
    "all mounts": (main(volumeMounts=[]), "change mounts"),
    "all variables": (main(env=None), "remove it"),
    "no variables": (main(env=[]), "remove it"),
    "index": (main(env=[{"name": "JOB_COMPLETION_INDEX", "value": "0"}]), "remove it"),
    "rank": (main(env=[{"name": "RANK", "value": "0"}]), "remove it"),
    "rendezvous": (main(env=[{"name": "PET_RDZV_BACKEND", "value": "c10d"}]), "remove it"),
    "variable of the plan": (main(env=[{"name": "TRAINWRIGHT_SPEC", "value": "/x"}]), "remove it"),
    "default variable": (main(env=[{"name": "OMP_NUM_THREADS", "value": "1"}]), "remove it"),
}


OPERATORS: Data = {
    "operators": {
        "jobset": {"version": "0.12"}, "trainer": {"version": "2.3"}, "kuberay": {"version": "1.7"},
        "training-operator": {"version": "1.9", "restricted_containers": True},
    }
}  # fmt: skip


@pytest.mark.parametrize(
    ("target", "kind", "spec", "fix"),
    [
        ("job-set", "JobSet", {"failurePolicy": {"rules": []}}, "remove it: all ranks come back together"),
        ("job-set", "JobSet", {"failurePolicy": {"maxRestarts": 7}}, "change restarts"),
        ("job-set", "JobSet", {"managedBy": "example.com/x"}, "every other controller would leave the object alone"),
        ("indexed-job", "Job", {"managedBy": "example.com/x"}, "every other controller would leave the object alone"),
        ("pytorch-job", "PyTorchJob", {"runPolicy": {"managedBy": "example.com/x"}}, "every other controller"),
        ("train-job", "TrainJob", {"managedBy": "example.com/x"}, "every other controller"),
        ("train-job", "TrainJob", {"initializer": {"dataset": {}}}, "use initializer of a run on an installed runtime"),
        (
            "pytorch-job", "PyTorchJob", {"pytorchReplicaSpecs": {"Master": {"restartPolicy": "Never"}}},
            "it follows from what the pods run",
        ),
    ],
)  # fmt: skip
def test_the_fix_names_what_decides_the_field(target: str, kind: str, spec: Data, fix: str) -> None:
    run: Data = {
        "target": target,
        "overrides": {"objects": [{"target": target, "kind": kind, "patch": {"spec": spec}}]},
    }  # fmt: skip
    (finding,) = [finding for finding in findings(run, OPERATORS) if finding.code == "TW601"]
    assert fix in finding.fix


def test_a_command_has_probes_and_hooks_of_its_own() -> None:
    """Nobody else watches it: there is no supervisor."""
    own = main(lifecycle={"preStop": {"sleep": {"seconds": 5}}}, startupProbe={"tcpSocket": {"port": 1}})
    assert codes(command("torchrun", "train.py") | own) == []


def test_the_grace_of_a_command_is_a_field() -> None:
    work = command("torchrun", "train.py")
    assert message(work | pod({"terminationGracePeriodSeconds": 600})).endswith("change grace")
    assert compiled(work | {"grace": "10m"}).plan.grace.seconds == 600
    assert compiled(work).plan.grace.seconds == 60


def test_the_head_of_ray_may_be_larger() -> None:
    """No field of a run says what a pod without ranks takes."""
    resources = {name: {"cpu": "8", "memory": "32Gi"} for name in ("requests", "limits")}
    run: Data = {
        "target": "ray-job", "topology": {"kind": "ray", "nodes": 2, "gpus_per_node": 8},
        "image": "registry.example.com/ray:2.60.0@sha256:" + "a" * 64, "overrides": {"pod": {"head": {
            "containers": [{"name": "ray-head", "resources": resources}]}}},
    }  # fmt: skip
    assert codes(run | command("python", "train.py"), OPERATORS) == []


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        ({}, "it is empty"),
        ({"priorityClassName": None}, "Job has no /priorityClassName to remove"),
        ({"enableServiceLinks": False}, "/enableServiceLinks says what Job says already"),
    ],
)
def test_a_patch_without_effect_says_why(patch: Data, why: str) -> None:
    (finding,) = findings(pod(patch))
    assert (finding.code, finding.message) == ("TW602", f"the patch changes nothing: {why}")


def test_overrides_are_listed_where_they_are_written() -> None:
    """A TrainJob takes over what is this run's own, and leaves the rest to its runtime."""
    containers = [{"name": "node", "env": [{"name": "EXTRA", "value": "1"}]}]
    patch = {"runtimeClassName": "nvidia", "nodeSelector": {"example.com/zone": "a"}, "containers": containers}
    result = compiled({"target": "train-job", "overrides": {"pod": {"node": patch}}}, OPERATORS)
    by_kind = {manifest["kind"]: manifest for manifest in result.manifests}
    assert len(result.overridden) == 3
    for place in result.overridden:
        kind, _, pointer = place.partition("/")
        assert at(by_kind[kind], f"/{pointer}") is not None, place


@pytest.mark.parametrize("case", OWNED)
def test_what_the_plan_owns_names_the_field_of_the_run(case: str) -> None:
    run, fix = OWNED[case]
    found = findings(run)
    assert {finding.code for finding in found} == {"TW601"}
    assert all(finding.where.pointer.startswith("/overrides/") for finding in found)
    assert any(fix in finding.fix for finding in found), [finding.fix for finding in found]


def test_a_label_of_the_pool_is_owned() -> None:
    refused = findings({"node_pool": "spot"} | pod({"nodeSelector": {"example.com/pool": "other"}}))
    assert any("change node_pool" in finding.fix for finding in refused)
    assert codes({"node_pool": "spot"} | pod({"nodeSelector": {"example.com/zone": "a"}})) == ["TW455"]


def test_a_variable_that_the_run_sets_is_changed_there() -> None:
    run = {"env": {"MODE": "a"}} | main(env=[{"name": "MODE", "value": "b"}])
    assert "change env.MODE" in message(run)


def test_a_command_owns_its_rank_environment() -> None:
    run = command("torchrun", "train.py")
    assert codes(run | main(env=[{"name": "PET_NODE_RANK", "value": "0"}])) == ["TW601"]
    assert codes(run | main(env=[{"name": "MASTER_PORT", "value": "0"}])) == ["TW601"]


FREE = {
    "priority": pod({"priorityClassName": "high"}),
    "scheduler": pod({"schedulerName": "other"}),
    "runtime": pod({"runtimeClassName": "nvidia"}),
    "node label": pod({"nodeSelector": {"example.com/zone": "a"}}),
    "toleration": pod({"tolerations": [{"key": "example.com/x", "operator": "Exists"}]}),
    "affinity": pod(
        {
            "affinity": {
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname"}]}
            }
        }
    ),
    "spread": pod({"topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]}),
    "host alias": pod({"hostAliases": [{"ip": "10.0.0.1", "hostnames": ["x"]}]}),
    "name servers": pod({"dnsConfig": {"options": [{"name": "ndots", "value": "2"}]}}),
    "size of shared memory": pod({"volumes": [{"name": "shm", "emptyDir": {"sizeLimit": "64Gi"}}]}),
    "size of scratch": pod({"volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "10Gi"}}]}),
    "deadline": job(activeDeadlineSeconds=86400),
    "object annotation": patched("Job", {"metadata": {"annotations": {"example.com/x": "y"}}}),
    "pod annotation": template(metadata={"annotations": {"example.com/x": "y"}}),
    "address family": patched("Service", {"spec": {"ipFamilyPolicy": "PreferDualStack"}}),
    "pull policy": main(imagePullPolicy="Always"),
    "working directory": main(workingDir="/app"),
    "root file system": main(securityContext={"readOnlyRootFilesystem": False}),
    "variable": main(env=[{"name": "EXTRA", "value": "1"}]),
    "pod field": main(env=[{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]),
    "variables of a map": main(envFrom=[{"configMapRef": {"name": "settings"}}]),
    "ephemeral storage": main(resources={"limits": {"ephemeral-storage": "10Gi"}}),
    "volume": pod(
        {
            "volumes": [{"name": "x", "configMap": {"name": "x"}}],
            "containers": [{"name": MAIN, "volumeMounts": [{"name": "x", "mountPath": "/x"}]}],
        }
    ),
}


@pytest.mark.parametrize("case", FREE)
def test_what_an_override_may_change(case: str) -> None:
    result = compiled(FREE[case])
    assert result.findings == ()
    assert result.overridden
    for place in result.overridden:
        kind, _, pointer = place.partition("/")
        index = next(i for i, manifest in enumerate(result.manifests) if manifest["kind"] == kind)
        assert nearest(result.provenance()[index], f"/{pointer}")[1] is not None
    assert any(answer.source.startswith("run:/overrides/") for answers in result.provenance() for answer in answers.values())


def test_only_labels_and_annotations_of_objects_keep_the_name() -> None:
    name = compiled().plan.name
    assert compiled(FREE["object annotation"]).plan.name == name
    for case in ("priority", "pod annotation", "deadline", "address family"):
        assert compiled(FREE[case]).plan.name != name


def test_overrides_of_one_list_come_one_after_the_other() -> None:
    both = (
        pod({"tolerations": [{"key": "a", "operator": "Exists"}]})["overrides"]
        | template(spec={"tolerations": [{"key": "b", "operator": "Exists"}]})["overrides"]
    )
    result = compiled({"overrides": both})
    tolerations = result.manifests[-1]["spec"]["template"]["spec"]["tolerations"]
    planned = ["nvidia.com/gpu", "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]
    assert [item["key"] for item in tolerations] == [*planned, "a", "b"]
    assert result.overridden == ("Job/spec/template/spec/tolerations/3", "Job/spec/template/spec/tolerations/4")


@pytest.mark.parametrize(
    ("run", "words"),
    [
        ({"overrides": {"pod": {"worker": {"priorityClassName": "x"}}}}, "use one of: node"),
        (patched("Pod", {"spec": {}}), "use one of: ConfigMap, Service, Job"),
        (pod({}), "changes nothing"),
        (pod({"restartPolicy": "Never"}), "changes nothing"),
        (pod({"priorityClassName": None}), "changes nothing"),
        (main(), "changes nothing"),
    ],
)
def test_an_override_of_nothing(run: Data, words: str) -> None:
    assert codes(run) == ["TW602"]
    assert words in message(run)


@pytest.mark.parametrize(
    "run",
    [
        pod({"priorityClass": "x"}),
        pod({"priorityClassName": 7}),
        pod({"nodeSelector": {"a": 1}}),
        pod({"nodeSelector": {"a": "b", "c": ["d"]}}),
        pod({"x": [None]}),
        pod({"initContainers": [None]}),
        pod({"x": {"a": "=", "$jsii.byref": "y"}}),
        pod({"volumes": [{"name": "x", "emptyDir": {}}, {"name": "x", "configMap": {"name": "y"}}]}),
        pod({"volumes": [{"name": "x", "emptyDir": {}, "configMap": {"name": "y"}}]}),
        main(volumeMounts=[{"name": "nowhere", "mountPath": "/x"}]),
        patched("Job", {"unknown": 1}),
        patched("Service", {"spec": {"sessionAffinity": 5}}),
        pod({"initContainers": [{"name": MAIN, "image": "x"}]}),
    ],
)
def test_an_override_that_the_api_would_refuse(run: Data) -> None:
    assert "TW603" in codes(run)


@pytest.mark.parametrize(
    ("run", "pointer"),
    [
        (main(stdin="yes"), "/overrides/pod/node/containers/0/stdin"),
        (main(stdn=True), "/overrides/pod/node/containers/0/stdn"),
        (patched("Service", {"spec": {"sessionAffinity": 5}}), "/overrides/objects/0/patch/spec/sessionAffinity"),
        (patched("Job", {"unknown": 1}), "/overrides/objects/0/patch/unknown"),
    ],
)
def test_what_the_api_would_refuse_is_named_where_it_is_written(run: Data, pointer: str) -> None:
    assert {one.where.pointer for one in findings(run) if one.code == "TW603"} == {pointer}


@pytest.mark.parametrize("value", [float("nan"), ("a",), {1}, b"x", 1j])
def test_an_override_that_json_cannot_hold_makes_no_run(value: object) -> None:
    with pytest.raises(ValidationError):
        compiled(pod({"x": value}))


def test_a_stop_signal_is_no_hook() -> None:
    said = codes(pod({"containers": [{"name": "beside", "image": "x", "lifecycle": {"stopSignal": "SIGUSR1"}}]}))
    assert "TW607" in said  # a container that never ends, and no crash of the rule on hosts of hooks


# Whatever a patch says, the plan stays true.

JOB = compiled().manifests[-1]
VALUES = st.sampled_from(
    (None, {}, [], "", "x", 0, 1, 7, True, "29501", {"a": "b"}, ["a"], [{"name": "x"}], {"name": None}, [None], 0.5)
)
EXTRA_KEYS = st.sampled_from(
    (
        "suspend",
        "ttlSecondsAfterFinished",
        "hostNetwork",
        "name",
        "value",
        "args",
        "containers",
        "nvidia.com/gpu",
        "x",
        "spec",
        "env",
    )
)


def ways(node: Any, above: tuple[Any, ...] = (), field: str = "") -> list[tuple[Any, ...]]:
    """Every way into an object as a patch writes it: keys, and items of lists as a pair of key and name."""
    found: list[tuple[Any, ...]] = [above] if above else []
    if isinstance(node, dict):
        for key, value in node.items():
            found += ways(value, (*above, key), key)
    elif isinstance(node, list) and node and isinstance(node[0], dict) and merge_key(field) in node[0]:
        for item in node:
            found += ways(item, (*above, (merge_key(field), item[merge_key(field)])))
    return found


WAYS = ways(JOB)


@st.composite
def job_patches(draw: st.DrawFn) -> Data:
    way = draw(st.sampled_from(WAYS))
    patch: Any = draw(VALUES)
    if draw(st.booleans()):
        patch = {draw(EXTRA_KEYS): patch}
    for step in reversed(way):
        if isinstance(step, tuple):
            key, name = step
            patch = [(patch if isinstance(patch, dict) else {draw(EXTRA_KEYS): patch}) | {key: name}]
        else:
            patch = {step: patch}
    result: Data = patch if isinstance(patch, dict) else {}
    return result


def essence(result: CompiledRun) -> str:
    """What a reader of the plan relies on, without the run's hash."""
    manifests = {manifest["kind"]: manifest for manifest in result.manifests}
    job, service = manifests["Job"], manifests["Service"]
    spec = job["spec"]["template"]["spec"]
    container = spec["containers"][0]
    planned = {variable.name for variable in result.plan.environment}
    kept = {
        "objects": [(m["apiVersion"], m["kind"], m["metadata"]["name"], m["metadata"]["namespace"]) for m in result.manifests],
        "job": {key: value for key, value in job["spec"].items() if key not in ("template", "activeDeadlineSeconds")},
        "service": [service["spec"][key] for key in ("clusterIP", "selector", "ports", "publishNotReadyAddresses")],
        "data": manifests["ConfigMap"]["data"],
        "pod": [
            spec.get(key)
            for key in ("restartPolicy", "subdomain", "hostname", "terminationGracePeriodSeconds", "hostPID", "nodeName")
        ],
        "names": [container["name"] for container in spec["containers"]],
        "labels": {
            key: job["spec"]["template"]["metadata"]["labels"][key]
            for key in ("app.kubernetes.io/instance", "sidecar.istio.io/inject")
        },
        "work": [
            container.get(key) for key in ("image", "command", "args", "ports", "lifecycle", "readinessProbe", "livenessProbe")
        ],
        "amounts": {
            field: {key: container["resources"][field][key] for key in ("cpu", "memory", GPU, "rdma/shared")}
            for field in ("requests", "limits")
        },
        "environment": [entry for entry in container["env"] if entry["name"] in planned],
        "taken": [entry for entry in container["env"] if entry["name"].startswith(("PET_", "JOB_", "RANK", "MASTER_", "WORLD_"))],
        "mounts": container["volumeMounts"][:4],
    }
    return json.dumps(kept, sort_keys=True).replace(result.plan.name, "NAME")


ESSENCE = essence(compiled())
REFUSALS = {"TW601", "TW602", "TW603", "TW604", "TW605", "TW606", "TW607"}


def keeps_the_plan(run: Data) -> bool:
    """Whether a run is refused as an override, or compiles to what the plan says."""
    try:
        return essence(compiled(run)) == ESSENCE
    except CompileError as error:
        return bool({finding.code for finding in error.findings} & REFUSALS)


@settings(max_examples=400)
@given(job_patches())
def test_no_patch_of_the_job_changes_what_the_plan_says(patch: Data) -> None:
    assert keeps_the_plan(patched("Job", patch))


@given(
    st.dictionaries(
        st.sampled_from(
            ("containers", "volumes", "initContainers", "tolerations", "hostNetwork", "dnsPolicy", "securityContext", "x")
        ),
        st.recursive(
            VALUES,
            lambda inner: st.one_of(
                st.lists(inner, max_size=2),
                st.dictionaries(
                    st.sampled_from(
                        (
                            "name",
                            "image",
                            "env",
                            "ports",
                            "resources",
                            "limits",
                            "cpu",
                            "securityContext",
                            "volumeMounts",
                            "mountPath",
                        )
                    ),
                    inner,
                    max_size=3,
                ),
            ),
            max_leaves=6,
        ),
        min_size=1,
        max_size=3,
    )
)
def test_no_patch_of_the_pod_changes_what_the_plan_says(patch: Data) -> None:
    assert keeps_the_plan(pod(patch))
