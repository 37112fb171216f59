"""Containers and volumes of cdk8s-plus, and the same as dictionaries, in the pods of a run."""

from __future__ import annotations

import warnings
from typing import Any

import cdk8s
import cdk8s_plus_33 as kplus
import pytest
from tests.compiler.cdk8s.test_job import CLUSTER, IMAGE, MOUNTS, WORK, chart, ddp
from tests.compiler.objects import assert_accepted

from trainwright import CompileError
from trainwright.cdk8s import DDPJob, RunWarning, beside, init, sidecar
from trainwright.findings.locate import at
from trainwright.run import Run

Data = dict[str, Any]


def container(name: str = "relay", **props: Any) -> kplus.Container:
    """One that a restricted namespace takes."""
    small = kplus.ContainerResources(
        cpu=kplus.CpuResources(request=kplus.Cpu.millis(100), limit=kplus.Cpu.millis(100)),
        memory=kplus.MemoryResources(request=cdk8s.Size.mebibytes(64), limit=cdk8s.Size.mebibytes(64)),
    )
    dropped = kplus.ContainerSecutiryContextCapabilities(drop=[kplus.Capability.ALL])
    secured = kplus.ContainerSecurityContextProps(capabilities=dropped)
    return kplus.Container(**{"image": IMAGE, "name": name, "resources": small, "security_context": secured, **props})


def scratch(scope: cdk8s.Chart, id: str = "scratch") -> kplus.Volume:
    return kplus.Volume.from_empty_dir(scope, id, "scratch", size_limit=cdk8s.Size.mebibytes(64))


def claim(scope: cdk8s.Chart) -> kplus.Volume:
    named = kplus.PersistentVolumeClaim.from_claim_name(scope, "claim", "saved")
    return kplus.Volume.from_persistent_volume_claim(scope, "saved", named)


def spec_of(job: DDPJob) -> Data:
    spec: Data = at(job.api_objects[-1].to_json(), "/spec/template/spec")
    return spec


def mounted(spec: Data) -> dict[str, str]:
    """Path in the first added container -> its volume in the pod."""
    added = (*spec.get("initContainers", []), *spec["containers"][1:])
    return {mount["mountPath"]: mount["name"] for mount in added[0]["volumeMounts"]}


def test_a_sidecar_brings_its_volumes_and_is_a_container_like_any_other() -> None:
    scope = chart()
    settings = kplus.ConfigMap(scope, "settings", metadata={"name": "settings"}, data={"mode": "fast"})
    relay = container(
        liveness=kplus.Probe.from_http_get("/well", port=8080), port_number=8080,
        env_variables={"MODE": kplus.EnvValue.from_config_map(settings, "mode")},
    )
    relay.mount("/run", scratch(scope), sub_path="sockets")
    relay.mount("/etc/app", kplus.Volume.from_config_map(scope, "files", settings))
    job = ddp(scope, containers=[sidecar(relay)])
    spec = spec_of(job)
    (found,) = spec["initContainers"]
    assert list(found)[:3] == ["name", "image", "restartPolicy"]
    assert found["livenessProbe"]["httpGet"] == {"path": "/well", "port": 8080, "scheme": "HTTP"}
    assert found["env"] == [{"name": "MODE", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "mode"}}}]
    assert found["volumeMounts"] == [
        {"mountPath": "/run", "name": "of-relay-0", "subPath": "sockets"}, {"mountPath": "/etc/app", "name": "of-relay-1"},
    ]  # fmt: skip
    assert [volume for volume in spec["volumes"] if volume["name"].startswith("of-")] == [
        {"name": "of-relay-0", "emptyDir": {"sizeLimit": "64Mi"}}, {"name": "of-relay-1", "configMap": {"name": "settings"}},
    ]  # fmt: skip
    for item in job.api_objects:
        assert_accepted(item.to_json(), CLUSTER.kubernetes)


def test_it_is_the_same_run_as_with_dictionaries() -> None:
    scope = chart()
    relay = container()
    relay.mount("/run", scratch(scope))
    plain = {
        "name": "relay", "image": IMAGE, "imagePullPolicy": "Always",
        "resources": {key: {"cpu": "100m", "memory": "64Mi"} for key in ("limits", "requests")},
        "securityContext": {
            "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "privileged": False,
            "readOnlyRootFilesystem": True, "runAsNonRoot": True,
        },
        "volumeMounts": [{"name": "here", "mountPath": "/run"}],
    }  # fmt: skip
    stated: Data = {"container": plain, "volumes": [{"name": "here", "emptyDir": {"sizeLimit": "64Mi"}}]}
    for kind, made in (("sidecar", sidecar(relay)), ("init", init(relay)), ("beside", beside(relay, ends_itself=True))):
        ends = {"ends_itself": True} if kind == "beside" else {}
        assert ddp(scope, f"a-{kind}", run="x", containers=[made]).name == ddp(
            scope, f"b-{kind}", run="x", containers=[{"kind": kind, **stated, **ends}]
        ).name  # fmt: skip
    job = ddp(scope, "c", run="x", containers=[sidecar(relay)])
    assert job.run == Run.model_validate(job.run.model_dump(mode="json", exclude_unset=True)), "a value like one from a file"


def test_the_same_object_is_the_same_volume() -> None:
    scope = chart()
    shared = scratch(scope)
    relay, watcher = container("relay"), container("watcher")
    relay.mount("/run", shared)
    watcher.mount("/watched", shared, read_only=True)
    spec = spec_of(ddp(scope, mounts={**MOUNTS, "/scratch": shared}, containers=[sidecar(relay), sidecar(watcher)]))
    names = [mount["name"] for one in (*spec["initContainers"], spec["containers"][0]) for mount in one["volumeMounts"]
             if mount["mountPath"] in ("/run", "/watched", "/scratch")]  # fmt: skip
    assert len(names) == 3
    assert len(set(names)) == 1
    assert [volume["emptyDir"] for volume in spec["volumes"] if volume["name"] == names[0]] == [{"sizeLimit": "64Mi"}]


def test_a_volume_of_two_containers_is_not_silently_two() -> None:
    scope = chart()
    shared, files = scratch(scope), kplus.ConfigMap(scope, "files", metadata={"name": "files"})
    same = kplus.Volume.from_config_map(scope, "same", files)
    relay, watcher = container("relay"), container("watcher")
    relay.mount("/etc/app", same)
    watcher.mount("/etc/app", same)
    assert spec_of(ddp(scope, containers=[sidecar(relay), sidecar(watcher)]))["initContainers"], "files are the same everywhere"
    relay.mount("/run", shared)
    watcher.mount("/run", shared)
    with pytest.raises(CompileError, match=r"relay and watcher mount one volume, scratch.*add it to mounts of the run"):
        ddp(scope, "other", containers=[sidecar(relay), sidecar(watcher)])


def test_a_claim_is_the_runs_own() -> None:
    scope = chart()
    saved, relay = claim(scope), container()
    relay.mount("/theirs", saved, read_only=True)
    for mounts in (MOUNTS, {"/checkpoints": saved}, {"/checkpoints": {"claim": "saved"}}, {"/checkpoints": {"volume": saved}}):
        job = ddp(scope, f"job-{len(scope.node.children)}", run="x", mounts=mounts, containers=[sidecar(relay)])
        assert mounted(spec_of(job)) == {"/theirs": "saved"}
        assert job.plan.checkpoint is not None
        assert job.plan.checkpoint.claim == "saved"
    only_read: Data = {"volume": saved, "read_only": True, "sub_path": "a"}
    main = spec_of(ddp(scope, "read-only", mounts={**MOUNTS, "/data": only_read}))["containers"][0]
    assert {"mountPath": "/data", "name": "saved", "readOnly": True, "subPath": "a"} in main["volumeMounts"]
    with pytest.raises(CompileError, match=r"TW601: /volumes/0 is a claim.*\{claim: saved\}` under mounts of the run"):
        ddp(scope, "unmounted", mounts={}, containers=[sidecar(relay)])


def test_roles_say_whose_pods_have_it() -> None:
    with pytest.raises(CompileError, match="TW327: container relay is for role launcher"):
        ddp(chart(), containers=[sidecar(container(), roles=["launcher"])])


class Relay(kplus.Container):
    """A class of the author's own."""

    def __init__(self) -> None:
        super().__init__(image=IMAGE, name="relay")


@pytest.mark.parametrize(("stated", "code", "words"), [
    (lambda scope: sidecar(Relay()), "TW606", "requests 1000m cpu and has a limit of 1500m"),
    (lambda scope: sidecar(container(image="registry.example.com/relay:v1")), "TW305", "not pinned by digest"),
    (lambda scope: sidecar(container(security_context=None)), "TW604", "add `capabilities: {drop: [ALL]}`"),
    (lambda scope: init(container(port_number=8080)), "TW603", "cannot have startupProbe"),
    (lambda scope: beside(container(), ends_itself=False), "TW607", "would keep the pod alive"),
    (lambda scope: sidecar(container("trainer")), "TW601", "it is the container that trains"),
    (lambda scope: sidecar(container(env_variables={"TOKEN": kplus.EnvValue.from_value("hf_" + "a" * 34)})), "TW409", "secret"),
    (lambda scope: container(), "TW107", "sidecar(container)"),
    (lambda scope: sidecar({"name": "relay"}), "TW107", "is given a dict"),  # type: ignore[arg-type]
    (lambda scope: sidecar(scratch(scope)), "TW107", "is given a Volume"),  # type: ignore[arg-type]
    (lambda scope: sidecar(mounting_two(scope)), "TW107", "cdk8s-plus refuses it: Invalid mount configuration"),
    (lambda scope: object(), "TW107", "has none of the forms"),
])  # fmt: skip
def test_it_is_held_to_the_same_rules(stated: Any, code: str, words: str) -> None:
    scope = chart()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RunWarning)
        try:
            findings = ddp(scope, containers=[stated(scope)]).findings
        except CompileError as error:
            findings = error.findings
    said = [(one.code, f"{one.message}; {one.fix}") for one in findings]
    assert any(one == code and words in text for one, text in said), said
    assert {str(one.where.file) for one in findings} == {"tests/compiler/cdk8s/test_job.py"}


def mounting_two(scope: cdk8s.Chart) -> kplus.Container:
    """Two volumes of one name."""
    made = container()
    made.mount("/a", scratch(scope, "first"))
    made.mount("/b", scratch(scope, "second"))
    return made


@pytest.mark.parametrize("mounts", [
    {"/x": container}, {"/x": object()}, {"/x": {"volume": object()}}, [], {1: {"claim": "saved"}},
])  # fmt: skip
def test_what_is_no_mount_ends_in_findings(mounts: Any) -> None:
    with pytest.raises(CompileError, match="TW107"):
        ddp(chart(), mounts=mounts)


def test_keywords_take_dictionaries_and_objects() -> None:
    """mypy reads this test too: it takes what is written here, and nothing else."""
    scope = chart()
    amounts = {"cpu": "100m", "memory": "64Mi"}
    hardened = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    job = DDPJob(
        scope, "mnist", cluster=CLUSTER, nodes=2, gpus_per_node=0, team="vision", image=IMAGE, workload=WORK,
        mounts={"/checkpoints": MOUNTS["/checkpoints"], "/fast": {"volume": {"emptyDir": {}}}, "/scratch": scratch(scope)},
        containers=[
            {"name": "installer", "kind": "init", "image": IMAGE, "cpu": "100m", "memory": "64Mi"},
            {
                "kind": "sidecar",
                "container": {"name": "relay", "image": IMAGE, "securityContext": hardened,
                              "resources": {"requests": amounts, "limits": amounts}},
            },
            sidecar(container("probed")),
        ],
    )  # fmt: skip
    assert [one["name"] for one in spec_of(job)["initContainers"]] == ["installer", "relay", "probed"]
    of_nothing = sidecar("relay")  # type: ignore[arg-type]
    with pytest.raises(CompileError):
        ddp(scope, "other", containers=[of_nothing])
    with pytest.raises(CompileError):
        DDPJob(scope, "a", cluster=CLUSTER, nodes=2, gpus_per_node=0, team="t", image=IMAGE, workload=WORK, containers=["x"])  # type: ignore[list-item]
    with pytest.raises(CompileError):
        DDPJob(scope, "b", cluster=CLUSTER, nodes=2, gpus_per_node=0, team="t", image=IMAGE, workload=WORK, mounts={"/x": 1})  # type: ignore[dict-item]
