"""What overrides add to a pod: sidecars, networks, capabilities, mounts, images and variables."""

from __future__ import annotations

from typing import Any

import pytest
from tests.compiler.example import RUN, Data, codes, findings, message, pod
from tests.compiler.findings.page import overlay

PRIVILEGED: Data = {"namespaces": {"training": {"pod_security": "privileged"}}}
BASELINE: Data = {"namespaces": {"training": {"pod_security": "baseline"}}}
DNS = {"dnsPolicy": "ClusterFirstWithHostNet"}
AMOUNTS = {"cpu": "100m", "memory": "128Mi"}


def container(**fields: Any) -> Data:
    """One that the namespace and the node take."""
    return {
        "name": "helper",
        "image": RUN["image"],
        "resources": {"requests": AMOUNTS, "limits": AMOUNTS},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    } | fields


def init(**fields: Any) -> Data:
    return pod({"initContainers": [container(**fields)]})


def trainer(**fields: Any) -> Data:
    return pod({"containers": [{"name": "trainer", **fields}]})


def test_a_container_before_the_work_and_a_native_sidecar_are_fine() -> None:
    assert codes(init()) == []
    assert codes(init(restartPolicy="Always")) == []


SYNC: Data = {"volumeMounts": [{"name": "checkpoints", "mountPath": "/data"}]}
"""Of the claim that the example's pods mount for writing."""


def shared(**fields: Any) -> list[str]:
    return codes(init(**{"volumeMounts": [SYNC["volumeMounts"][0] | fields]}))


def test_what_every_pod_writes_to_a_claim_is_found() -> None:
    (finding,) = findings(init(**SYNC))
    assert (finding.code, finding.where.pointer) == ("TW243", "/overrides/pod/node/initContainers/0")
    assert "claim checkpoints, and 2 pods run it" in finding.message
    assert "prepare" in finding.fix


def test_what_cannot_race_is_fine() -> None:
    assert shared(readOnly=True) == []
    assert shared(subPath="data") == ["TW243"]
    assert shared(subPathExpr="$(POD_NAME)") == []
    assert shared(name="tmp") == []
    assert codes(init(**SYNC) | {"topology": {"nodes": 1}}) == []
    assert codes(init(**SYNC, restartPolicy="Always")) == [], "a sidecar lives as long as the work, and is no fetching"
    read_only: Data = {"mounts": {"/data": {"claim": "dataset", "read_only": True}}}
    mount: Data = {"volumeMounts": [{"name": "dataset", "mountPath": "/data"}]}
    assert codes(init(**mount) | read_only) == [], "the volume is read-only"


def test_roles_of_one_pod_each_race_too() -> None:
    run: Data = {"target": "tf-job",
                 "topology": {"kind": "multi-worker-mirrored", "nodes": 2, "gpus_per_node": 8, "chief": True}}  # fmt: skip
    cluster: Data = {"operators": {"training-operator": {"version": "1.9"}}}
    writing = {"initContainers": [container(**SYNC)]}
    assert "TW243" not in codes(run | {"overrides": {"pod": {"chief": writing}}}, cluster)
    both = [finding for finding in findings(run | {"overrides": {"pod": {"chief": writing, "worker": writing}}}, cluster)
            if finding.code == "TW243"]  # fmt: skip
    assert [finding.where.pointer.split("/")[3] for finding in both] == ["chief", "worker"]
    assert all("2 pods" in finding.message for finding in both)


def test_a_container_beside_the_work_never_lets_the_pod_end() -> None:
    (finding,) = findings(pod({"containers": [container()]}))
    assert finding.code == "TW607"
    assert finding.where.pointer == "/overrides/pod/node/containers/0"
    assert "kind: sidecar" in finding.fix


@pytest.mark.parametrize(
    ("resources", "words"),
    [
        ({}, "has no cpu limit"),
        ({"requests": AMOUNTS}, "has no cpu limit"),
        ({"limits": {"cpu": 1}}, "has no memory limit"),
        ({"limits": AMOUNTS, "requests": {"cpu": "50m", "memory": "128Mi"}}, "requests 50m cpu and has a limit of 100m"),
    ],
)
def test_added_containers_ask_for_what_they_use(resources: Data, words: str) -> None:
    (finding,) = findings(init(resources=resources))
    assert finding.code == "TW606"
    assert words in finding.message


def test_limits_alone_are_requests_too() -> None:
    assert codes(init(resources={"limits": AMOUNTS})) == []


def test_sidecars_count_against_the_node() -> None:
    large = {"requests": {"cpu": 100, "memory": "1Gi"}, "limits": {"cpu": 100, "memory": "1Gi"}}
    assert codes(init(resources=large, restartPolicy="Always")) == ["TW308"]
    assert codes(init(resources=large)) == [], "it ends before the work begins"


@pytest.mark.parametrize("device", ["nvidia.com/gpu", "rdma/shared"])
def test_devices_are_for_the_ranks(device: str) -> None:
    limits = AMOUNTS | {device: "1"}
    assert codes(init(resources={"requests": limits, "limits": limits})) == ["TW601"]


@pytest.mark.parametrize("port", [29500, 29400, 9400])
def test_ports_of_the_plan_are_taken(port: int) -> None:
    assert codes(init(restartPolicy="Always", ports=[{"containerPort": port}])) == ["TW601"]
    assert codes(init(restartPolicy="Always", ports=[{"containerPort": port + 1}])) == []


@pytest.mark.parametrize(
    ("image", "code"),
    [
        ("registry.example.com/x:1", "TW305"),
        ("docker.io/x@sha256:" + "0" * 64, "TW306"),
        ("No Image", "TW304"),
        ("", "TW304"),
    ],
)
def test_images_of_added_containers_follow_the_rules_of_the_run(image: str, code: str) -> None:
    (finding,) = findings(init(image=image))
    assert (finding.code, finding.where.pointer) == (code, "/overrides/pod/node/initContainers/0/image")


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        ({"name": "HF_TOKEN", "value": "abc"}, "TW409"),
        ({"name": "NCCL_TIMEOUT", "value": "1"}, "TW407"),
        ({"name": "NCCL_ALGO", "value": "Ring"}, "TW408"),
    ],
)
def test_variables_of_overrides_follow_the_rules_of_the_run(entry: Data, code: str) -> None:
    assert codes(trainer(env=[entry])) == [code]
    assert codes(init(env=[entry])) == [code]
    reference = {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    assert codes(trainer(env=[reference])) == []


def test_findings_on_the_run_are_not_repeated_for_the_pod() -> None:
    assert codes({"env": {"NCCL_ALGO": "Ring"}} | pod({"priorityClassName": "high"})) == ["TW408"]


def test_the_network_of_the_node_needs_names_and_whole_nodes() -> None:
    assert codes(pod({"hostNetwork": True} | DNS), PRIVILEGED) == []
    assert "ClusterFirstWithHostNet" in message_of(pod({"hostNetwork": True}), PRIVILEGED)
    half = pod({"hostNetwork": True} | DNS) | {"topology": {"gpus_per_node": 4}}
    assert "29500, 29400, 9400" in message_of(half, PRIVILEGED)
    on_cpus = pod({"hostNetwork": True} | DNS) | {"topology": {"gpus_per_node": 0}}
    assert codes(on_cpus, PRIVILEGED) == ["TW605"]


def test_the_network_of_the_node_is_refused_by_pod_security() -> None:
    for cluster in ({}, BASELINE):
        assert codes(pod({"hostNetwork": True} | DNS), cluster) == ["TW604"]
        assert set(codes(pod({"hostNetwork": True}), cluster)) == {"TW604", "TW605"}


@pytest.mark.parametrize(
    ("policy", "expected"), [("Default", ["TW605"]), ("None", ["TW605"]), ("ClusterFirst", []), ("ClusterFirstWithHostNet", [])]
)
def test_names_of_peers_must_resolve(policy: str, expected: list[str]) -> None:
    assert codes(pod({"dnsPolicy": policy})) == expected


def message_of(run: Data, cluster: Data) -> str:
    (finding,) = findings(run, cluster)
    assert finding.code == "TW605"
    return f"{finding.message}; {finding.fix}"


SECURITY: dict[str, tuple[Data, str]] = {
    "privileged": (trainer(securityContext={"privileged": True, "allowPrivilegeEscalation": None}), "baseline"),
    "capability": (trainer(securityContext={"capabilities": {"add": ["IPC_LOCK"]}}), "baseline"),
    "path of the node": (pod({"volumes": [{"name": "x", "hostPath": {"path": "/"}}]}), "baseline"),
    "memory of the node": (pod({"hostIPC": True}), "baseline"),
    "port of the node": (init(ports=[{"containerPort": 80, "hostPort": 80}]), "baseline"),
    "no seccomp": (pod({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}), "baseline"),
    "no AppArmor": (trainer(securityContext={"appArmorProfile": {"type": "Unconfined"}}), "baseline"),
    "SELinux": (trainer(securityContext={"seLinuxOptions": {"type": "spc_t"}}), "baseline"),
    "proc": (trainer(securityContext={"procMount": "Unmasked"}), "baseline"),
    "sysctl": (pod({"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}), "baseline"),
    "root": (pod({"securityContext": {"runAsUser": 0, "runAsNonRoot": None}}), "restricted"),
    "perhaps root": (pod({"securityContext": {"runAsNonRoot": None}}), "restricted"),
    "root in a container": (trainer(securityContext={"runAsUser": 0, "runAsNonRoot": False}), "restricted"),
    "escalation": (trainer(securityContext={"allowPrivilegeEscalation": True}), "restricted"),
    "kept capabilities": (trainer(securityContext={"capabilities": {"drop": None}}), "restricted"),
    "small capability": (trainer(securityContext={"capabilities": {"add": ["CHOWN"]}}), "restricted"),
    "bare container": (init(securityContext=None), "restricted"),
    "network volume": (pod({"volumes": [{"name": "x", "nfs": {"server": "s", "path": "/"}}]}), "restricted"),
    "no profile": (pod({"securityContext": {"seccompProfile": None}}), "restricted"),
}


@pytest.mark.parametrize("case", SECURITY)
def test_pod_security_standards(case: str) -> None:
    run, level = SECURITY[case]
    assert set(codes(run)) == {"TW604"}
    assert codes(run, BASELINE) == (["TW604"] if level == "baseline" else [])
    assert codes(run, PRIVILEGED) == []


def test_the_finding_names_level_container_and_place() -> None:
    text = message(trainer(securityContext={"capabilities": {"add": ["SYS_PTRACE"]}}))
    assert text.startswith(
        "/overrides/pod/node/containers/0/securityContext/capabilities/add/0: pod security restricted refuses capability "
        "SYS_PTRACE in container trainer;"
    )


@pytest.mark.parametrize("path", ["/", "/etc", "/etc/trainwright/x", "/dev/shm/", "/data/../tmp", "relative", "//x"])
def test_added_mounts_stay_out_of_the_way(path: str) -> None:
    run = pod(
        {
            "volumes": [{"name": "x", "emptyDir": {}}],
            "containers": [{"name": "trainer", "volumeMounts": [{"name": "x", "mountPath": path}]}],
        }
    )
    assert "TW233" in codes(run)


def test_an_added_mount_may_not_hide_one_of_the_run() -> None:
    run = {"mounts": {"/data/images": {"claim": "dataset", "read_only": True}}} | pod(
        {
            "volumes": [{"name": "x", "emptyDir": {}}],
            "containers": [{"name": "trainer", "volumeMounts": [{"name": "x", "mountPath": "/data"}]}],
        }
    )
    assert codes(run) == ["TW233"]


def test_the_same_rules_hold_for_a_patch_of_the_job() -> None:
    patch = {"spec": {"template": {"spec": {"hostNetwork": True}}}}
    run = overlay({}, {"overrides": {"objects": [{"target": "indexed-job", "kind": "Job", "patch": patch}]}})
    found = findings(run)
    assert {finding.code for finding in found} == {"TW604", "TW605"}
    assert {finding.where.pointer for finding in found} == {"/overrides/objects/0/patch/spec/template/spec/hostNetwork"}


def claim(name: str, **fields: Any) -> Data:
    return pod({"volumes": [{"name": "more", "persistentVolumeClaim": {"claimName": name, **fields}}]})


def of_access(access: str) -> Data:
    return {"namespaces": {"training": {"claims": {"more": {"managed": False, "access": access}}}}}


@pytest.mark.parametrize(("run", "cluster", "code"), [
    (claim("mroe"), of_access("ReadWriteMany"), "TW234"),
    (claim("more"), of_access("ReadWriteMany"), None),
    (claim("more"), of_access("ReadOnlyMany"), "TW235"),
    (claim("more", readOnly=True), of_access("ReadOnlyMany"), None),
    (claim("more"), of_access("ReadWriteOnce"), "TW235"),
    (claim("more") | {"topology": {"nodes": 1}}, of_access("ReadWriteOnce"), None),
    (claim("checkpoints"), of_access("ReadWriteMany"), None),
])  # fmt: skip
def test_claims_that_an_override_mounts_follow_the_rules_of_the_run(run: Data, cluster: Data, code: str | None) -> None:
    assert [(one.code, one.where.pointer) for one in findings(run, cluster)] == (
        [(code, "/overrides/pod/node/volumes/0/persistentVolumeClaim/claimName")] if code else []
    )
