"""Containers and volumes as Kubernetes writes them: the same pods, the same rules, and every mistake on its line."""

from __future__ import annotations

import json
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion
from tests.compiler.compiling import compile_text
from tests.compiler.example import CLUSTER, RUN, Data, compiled, findings, script
from tests.compiler.findings.page import overlay
from tests.compiler.objects import assert_accepted, assert_beside_ranks, lines_without_answer, written
from tests.compiler.rehearsal.stage import options
from tests.compiler.targets import CASES, on, profile_for

from trainwright.cluster import Cluster
from trainwright.compile import compile_run
from trainwright.findings import CompileError
from trainwright.findings.locate import at
from trainwright.manifest.pods import pods_in
from trainwright.manifest.provenance import origin
from trainwright.model import file_schema
from trainwright.page.drawing import drawing
from trainwright.reading import validate_data
from trainwright.rehearsal.checks.manifests import check_objects
from trainwright.rehearsal.differences import leave_out_containers
from trainwright.rehearsal.stated.objects import find_objects
from trainwright.report.facts import plan_facts
from trainwright.report.plan import plan_rows
from trainwright.run import ClaimMount, KubernetesContainer, KubernetesMount, Run, ScriptWorkload, Security
from trainwright.topology import DDP

IMAGE = "registry.example.com/tools/helper@sha256:" + "a" * 64
EQUAL: Data = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
HARDENED: Data = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
RELAY: Data = {
    "kind": "sidecar",
    "container": {
        "name": "relay", "image": IMAGE, "args": ["--listen", "/run/relay.sock"],
        "livenessProbe": {"httpGet": {"path": "/well", "port": 8080}, "initialDelaySeconds": 5},
        "ports": [{"name": "well", "containerPort": 8080}],
        "env": [{"name": "APP_MEMORY", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory"}}}],
        "resources": EQUAL, "securityContext": HARDENED,
        "volumeMounts": [
            {"name": "sockets", "mountPath": "/run", "mountPropagation": "HostToContainer"},
            {"name": "saved", "mountPath": "/saved", "readOnly": True, "subPathExpr": "$(APP_MEMORY)"},
        ],
    },
    "volumes": [
        {"name": "sockets", "csi": {"driver": "sockets.csi.example.com", "fsType": "ext4"}},
        {"name": "saved", "same_as": "/checkpoints"},
    ],
}  # fmt: skip
FAST: Data = {"volume": {"csi": {"driver": "fast.csi.example.com", "fsType": "xfs"}}, "read_only": True, "sub_path": "a/b"}


def relay(container: Data | None = None, **changes: Any) -> Data:
    """The sidecar with changes (mappings merge, null removes)."""
    changed: Data = overlay(RELAY, {"container": container or {}})
    return changed | changes


def as_script(run: Data) -> Data:
    return script("python", "x.py") | {"security": {"user": 1000}} | run


def pod_of(run: Data, cluster: Data | None = None) -> Data:
    manifests = compiled(as_script(run), cluster).manifests
    (pod,) = [template for manifest in manifests for _, template in pods_in(manifest)]
    return pod


def of_level(level: str) -> Data:
    return {"namespaces": {"training": {"pod_security": level}}}


def test_a_sidecar_and_a_mount(snapshot: SnapshotAssertion) -> None:
    result = compiled(as_script({"containers": [RELAY], "mounts": {"/fast": FAST}}))
    (pod,) = [template for manifest in result.manifests for _, template in pods_in(manifest)]
    main, spec = pod["spec"]["containers"][0], pod["spec"]
    assert written([{
        "initContainers": spec["initContainers"], "volumes": spec["volumes"],
        "volumeMounts": [one for one in main["volumeMounts"] if one["mountPath"] == "/fast"],
    }]).replace(result.plan.name, "run") == snapshot(name="pod")  # fmt: skip
    facts = {key: value for key, value in plan_facts(result).items() if key.startswith(("containers", "mounts./fast"))}
    assert {"plan": dict(plan_rows(result))["containers"], "facts": facts} == snapshot(name="review")
    assert "/fast: volume csi" in drawing(result)
    for manifest in result.manifests:
        assert_accepted(manifest, result.cluster.kubernetes)


def test_every_line_of_it_has_the_answer_that_it_was_asked_for() -> None:
    result = compiled(as_script({"containers": [RELAY], "mounts": {"/fast": FAST}}))
    assert lines_without_answer(result) == []
    job, answers = result.manifests[-1], result.provenance()[-1]
    spec = "/spec/template/spec"
    assert origin(answers, f"{spec}/initContainers/0/livenessProbe/httpGet/port") == (
        "run:/containers/0/container", "/livenessProbe/httpGet/port"
    )  # fmt: skip
    sources = {
        f"{spec}/initContainers/0/restartPolicy": "run:/containers/0/kind",
        f"{spec}/initContainers/0/volumeMounts/0/name": "run:/containers/0/volumes/0",
        f"{spec}/initContainers/0/volumeMounts/1/name": "run:/containers/0/volumes/1",
        f"{spec}/volumes/{_number(job, 'volume-1')}/csi": "run:/mounts/~1fast/volume/csi",
        f"{spec}/volumes/{_number(job, 'of-relay-0')}/csi": "run:/containers/0/volumes/0/csi",
    }
    assert {pointer: origin(answers, pointer)[0] for pointer in sources} == sources


def _number(job: Data, name: str) -> int:
    names = [volume["name"] for volume in at(job, "/spec/template/spec/volumes")]
    return names.index(name)


def test_an_edit_of_it_is_a_new_run() -> None:
    probe = {"livenessProbe": {"initialDelaySeconds": 6}}
    names = {
        compiled(as_script(run)).plan.name
        for run in ({"containers": [RELAY]}, {"containers": [relay(probe)]}, {"mounts": {"/fast": FAST}}, {})
    }
    assert len(names) == 4


@pytest.mark.parametrize("name", CASES)
def test_every_target_carries_them(name: str) -> None:
    stated = [
        relay({"name": "installer", "livenessProbe": None}, kind="init"), RELAY,
        relay({"name": "watcher"}, kind="beside", ends_itself=True),
    ]
    mounts = {"/checkpoints": {"claim": "checkpoints"}, "/fast": FAST}
    result = compiled(on(name, containers=stated, mounts=mounts), profile_for(name))
    assert_beside_ranks(result, ["installer", "relay", "watcher"])


def test_a_module_of_python_writes_them_as_dictionaries() -> None:
    """mypy reads this test too."""
    run = Run(
        run="example", team="vision", namespace="training", cluster="lab", image=IMAGE, security=Security(user=1000),
        topology=DDP(kind="ddp", nodes=2, gpus_per_node=8), workload=ScriptWorkload(kind="script", command=["python", "x.py"]),
        mounts={
            "/checkpoints": ClaimMount(claim="checkpoints"), "/fast": {"volume": {"csi": {"driver": "fast.csi.example.com"}}},
            "/slow": KubernetesMount(volume={"csi": {"driver": "slow.csi.example.com"}}),
        },
        containers=[
            {"kind": "init", "container": {"name": "first", "image": IMAGE, "resources": EQUAL, "securityContext": HARDENED}},
            KubernetesContainer(
                kind="sidecar",
                container={"name": "relay", "image": IMAGE, "resources": EQUAL, "securityContext": HARDENED,
                           "volumeMounts": [{"name": "own", "mountPath": "/own"}]},
                volumes=[{"name": "own", "emptyDir": {}}],
            ),
        ],
    )  # fmt: skip
    plain = Run.model_validate(run.model_dump(mode="json", exclude_unset=True))
    cluster = Cluster.model_validate(CLUSTER)
    assert compile_run(run, cluster).manifests == compile_run(plain, cluster).manifests


# The other form of the same thing.


AMOUNTS: Data = {"image": IMAGE, "cpu": "1", "memory": "1Gi"}
PARTS: dict[str, Data] = {
    "command": {"command": ["relay"], "args": ["--at", "$(END)"], "env": {"END": "x", "TOKEN_OF": {"secret": "s", "key": "k"}}},
    "own volumes": {"mounts": {"/a": {"scratch": "1Gi"}, "/b": {"csi": "d.example.com", "secret": "s", "read_only": True}}},
    "shared volumes": {"mounts": {"/a": {"same_as": "/checkpoints", "read_only": True}, "/b": {"config_map": "settings"}}},
    "user": {"security": {"user": 1000, "group": 7, "read_only_root": True, "capabilities": ["NET_BIND_SERVICE"]}},
    "written volume": {"mounts": {"/a": {"volume": {"emptyDir": {"medium": "Memory"}}, "sub_path": "x"}}},
}
KINDS: dict[str, Data] = {
    "init": {"kind": "init"}, "sidecar": {"kind": "sidecar", "started": {"port": 9999}},
    "beside": {"kind": "beside", "ends_itself": True},
}  # fmt: skip


def plainly(typed: Data, pod: Data) -> Data:
    """A typed container as Kubernetes writes it, read off the pod that it is in."""
    spec = pod["spec"]
    found = next(one for one in (*spec.get("initContainers", []), *spec["containers"]) if one["name"] == typed["name"])
    own = {volume["name"]: volume for volume in spec["volumes"]}
    shared = [mount.get("same_as") for mount in typed.get("mounts", {}).values()]
    mounts = found.get("volumeMounts", [])
    volumes = [
        own[mount["name"]] if path is None else {"name": f"shared-{number}", "same_as": path}
        for number, (mount, path) in enumerate(zip(mounts, shared, strict=True))
    ]
    named = [{**mount, "name": volume["name"]} for mount, volume in zip(mounts, volumes, strict=True)]
    form: Data = {key: typed[key] for key in ("kind", "ends_itself") if key in typed}
    return {**form, "container": {**found, **({"volumeMounts": named} if named else {})}, "volumes": volumes}


@given(
    st.lists(st.tuples(st.sampled_from(sorted(KINDS)), st.sets(st.sampled_from(sorted(PARTS)))), min_size=1, max_size=3),
    st.sampled_from(("restricted", "baseline")),
)
@settings(max_examples=60, deadline=None)
def test_a_container_is_the_same_in_both_forms(drawn: list[tuple[str, set[str]]], level: str) -> None:
    typed = []
    for number, (kind, parts) in enumerate(drawn):
        one = {"name": f"helper-{number}", **AMOUNTS, **KINDS[kind]}
        for part in sorted(parts):
            one |= {**PARTS[part], "mounts": {**one.get("mounts", {}), **PARTS[part].get("mounts", {})}}
        typed.append(one)
    pod = pod_of({"containers": typed}, of_level(level))
    assert pod_of({"containers": [plainly(one, pod) for one in typed]}, of_level(level)) == pod


@pytest.mark.parametrize(("container", "code"), [
    ({"kind": "beside"}, "TW607"),
    ({"image": "registry.example.com/x:latest"}, "TW305"),
    ({"image": "elsewhere.example.com/x:latest"}, "TW306"),
    ({"memory": "9Ti"}, "TW308"),
    ({"roles": ["launcher"]}, "TW327"),
    ({"mounts": {"/x": {"same_as": "/nowhere"}}}, "TW233"),
    ({"mounts": {"/x": {"host_path": "/sys"}}}, "TW604"),
    ({"mounts": {"/x": {"nfs": "10.0.0.2", "path": "/x"}}}, "TW604"),
    ({"mounts": {"/x": {"image": "registry.example.com/x:latest"}}}, "TW305"),
    ({"mounts": {"/proc": {"scratch": "1Gi"}}}, "TW603"),
    ({"security": {"user": 0}}, "TW604"),
    ({"security": {"capabilities": ["SYS_ADMIN"]}}, "TW604"),
    ({"env": {"HF_TOKEN": "hf_" + "a" * 34}}, "TW409"),
    ({"env": {"NCCL_IB_HCA_LIST": "x"}}, "TW412"),
    ({"name": "trainer"}, "TW601"),
    ({}, None),
])  # fmt: skip
def test_both_forms_are_held_to_the_same_rules(container: Data, code: str | None) -> None:
    """The plain form is read off the pod of a cluster and a run that let everything pass, but for the names of the plan."""
    typed = {"name": "helper", "kind": "sidecar", **AMOUNTS, **container}
    cluster: Data = {"registries": ["registry.example.com"], "kubernetes": "1.36", **of_level("restricted")}
    said = {one.code for one in findings(as_script({"containers": [typed]}), cluster)}
    plain = _as_kubernetes_writes_it(typed)
    found = findings(as_script({"containers": [plain]}), cluster)
    assert {one.code for one in found} == said
    assert code is None or code in said
    assert all(str(one.where.pointer).startswith("/containers/0") for one in found)


def _as_kubernetes_writes_it(typed: Data) -> Data:
    """By hand, for what no pod may hold."""
    sources: dict[str, Any] = {
        "host_path": lambda one: {"hostPath": {"path": one["host_path"]}},
        "nfs": lambda one: {"nfs": {"server": one["nfs"], "path": one["path"]}},
        "image": lambda one: {"image": {"reference": one["image"]}},
        "scratch": lambda one: {"emptyDir": {"sizeLimit": one["scratch"]}},
        "same_as": lambda one: one,
    }
    mounts = typed.get("mounts", {})
    volumes = [{"name": f"v{number}", **sources[next(iter(one))](one)} for number, one in enumerate(mounts.values())]
    security = typed.get("security", {})
    user = {"runAsUser": security["user"], "runAsNonRoot": security["user"] != 0} if "user" in security else {}
    added = {"capabilities": {"drop": ["ALL"], "add": security["capabilities"]}} if "capabilities" in security else {}
    amounts = {"cpu": typed["cpu"], "memory": typed["memory"]}
    container = {
        "name": typed["name"], "image": typed["image"], "resources": {"requests": amounts, "limits": amounts},
        "env": [{"name": name, "value": value} for name, value in typed.get("env", {}).items()],
        "securityContext": {**HARDENED, **user, **added},
        "volumeMounts": [{"name": f"v{number}", "mountPath": path} for number, path in enumerate(mounts)],
    }  # fmt: skip
    return {key: typed[key] for key in ("kind", "roles") if key in typed} | {"container": container, "volumes": volumes}


# What is wrong with one, and on which line.


@pytest.mark.parametrize(("container", "code", "place", "words"), [
    ({"livenesProbe": {}, "livenessProbe": None}, "TW603", "/container/livenesProbe", "did you mean `livenessProbe`?"),
    ({"livenessProbe": {"htpGet": {}, "httpGet": None}}, "TW603", "/container/livenessProbe/htpGet", "did you mean `httpGet`?"),
    ({"ports": [{"containerPort": "well"}]}, "TW603", "/container/ports/0/containerPort", "must be a whole number"),
    ({"imagePullPolicy": "Sometimes"}, "TW603", "/container/imagePullPolicy", "write one of Always"),
    ({"resources": {"limits": {"cpu": "a few"}}}, "TW603", "/container/resources/limits/cpu", "does not match"),
    ({"image": None}, "TW603", "/container", "has no `image`"),
    ({"name": None}, "TW603", "/container/name", "has no `name`"),
    ({"name": "Relay"}, "TW603", "/container/name", "does not match"),
    ({"name": "r" * 41}, "TW603", "/container/name", "write at most 40"),
    ({"restartPolicy": "OnFailure"}, "TW601", "/container/restartPolicy", "remove it"),
    ({"restartPolicyRules": [{"action": "Restart"}]}, "TW601", "/container/restartPolicyRules", "as a whole"),
    ({"volumeMounts": [{"name": "sokets", "mountPath": "/run"}]}, "TW603", "/container/volumeMounts/0/name", "sockets, saved"),
    ({"volumeDevices": [{"name": "spec", "devicePath": "/x"}]}, "TW603", "/container/volumeDevices/0/name", "not among its"),
    ({"livenessProbe": {"exec": {"command": ["a"]}}}, "TW603", "/container/livenessProbe", "does 2 things: exec, httpGet"),
    ({"resources": {"limits": {"cpu": None}, "requests": {"cpu": None}}}, "TW606", "/container/resources", "has no cpu limit"),
    ({"resources": {"requests": {"cpu": "1m"}}}, "TW606", "/container/resources", "requests 1m cpu"),
    ({"resources": {"limits": {"nvidia.com/gpu": 1}}}, "TW601", "/container/resources/limits/nvidia.com~1gpu", "GPUs"),
    ({"ports": [{"containerPort": 29500}]}, "TW601", "/container/ports/0", "a port of the plan"),
    ({"ports": [{"containerPort": 1, "hostPort": 1}]}, "TW604", "/container/ports/0/hostPort", "refuses hostPort"),
    ({"env": [{"name": "A"}, {"name": "B_TOKEN", "value": "hf_" + "a" * 34}]}, "TW409", "/container/env/1", "secretKeyRef"),
    ({"env": [{"name": "B", "value": "a"}, {"name": "B", "value": ""}]}, "TW603", "/container/env/1", "has B twice"),
    ({"ports": [{"containerPort": 1}, {"containerPort": 1}]}, "TW603", "/container/ports/1", "has 1/TCP twice"),
    ({"resources": {"limits": {"cpu": 0.5}}}, "TW603", "/container/resources/limits/cpu", "a fraction without quotes"),
    ({"securityContext": None}, "TW604", "/container/securityContext/allowPrivilegeEscalation",
     "add `allowPrivilegeEscalation: false` to"),
    ({"securityContext": None}, "TW604", "/container/securityContext/capabilities/drop",
     "add `capabilities: {drop: [ALL]}` to its"),
    ({"securityContext": {"privileged": True}}, "TW604", "/container/securityContext/privileged", "refuses privileged"),
    ({"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}, "TW604", "/container/securityContext/capabilities/add/0",
     "capability SYS_ADMIN"),
    ({"resources": {"limits": {"memory": "9Ti"}, "requests": {"memory": "9Ti"}}}, "TW308", "/container/resources/limits/memory",
     "with its other containers"),
    ({"name": "trainer"}, "TW601", "/container/name", "it is the container that trains"),
])  # fmt: skip
def test_what_is_wrong_with_a_container(container: Data, code: str, place: str, words: str) -> None:
    run = as_script({"containers": [relay(container)]})
    said = findings(run, {"kubernetes": "1.36", **of_level("restricted")})
    assert (code, f"/containers/0{place}", True) in [
        (one.code, one.where.pointer, words in f"{one.message}; {one.fix}") for one in said
    ]


@pytest.mark.parametrize(("changes", "code", "place", "words"), [
    ({"kind": "init"}, "TW603", "/container/livenessProbe", "an init container that ends cannot have livenessProbe"),
    ({"kind": "beside"}, "TW607", "/container", "would keep the pod alive"),
    ({"volumes": [{"name": "sockets", "cs": {}}, RELAY["volumes"][1]]}, "TW603", "/volumes/0/cs", "did you mean `csi`?"),
    ({"volumes": [{"name": "sockets", "csi": {}}, RELAY["volumes"][1]]}, "TW603", "/volumes/0/csi/driver", "has no `driver`"),
    ({"volumes": [{"name": "sockets"}, RELAY["volumes"][1]]}, "TW603", "/volumes/0", "has no source"),
    ({"volumes": [*RELAY["volumes"], {"name": "saved", "emptyDir": {}}]}, "TW603", "/volumes/2", "two volumes are called saved"),
    ({"volumes": [{"name": "sockets", "hostPath": {"path": "/run"}}, RELAY["volumes"][1]]}, "TW604", "/volumes/0/hostPath",
     "hostPath"),
    ({"volumes": [RELAY["volumes"][0], {"name": "saved", "same_as": "/x"}]}, "TW233", "/volumes/1", "nothing is mounted there"),
    ({"volumes": [{"name": "sockets", "persistentVolumeClaim": {"claimName": "dataset"}}, RELAY["volumes"][1]]}, "TW601",
     "/volumes/0/persistentVolumeClaim", "write `PATH: {claim: dataset}` under mounts of the run"),
])  # fmt: skip
def test_what_is_wrong_around_a_container(changes: Data, code: str, place: str, words: str) -> None:
    said = findings(as_script({"containers": [relay(**changes)]}), of_level("restricted"))
    assert (code, f"/containers/0{place}", True) in [
        (one.code, one.where.pointer, words in f"{one.message}; {one.fix}") for one in said
    ]


@pytest.mark.parametrize(("volume", "code", "place", "words"), [
    ({}, "TW603", "", "has no source"),
    ({"csi": {"driver": "a.b"}, "nfs": {"server": "a", "path": "/"}}, "TW603", "", "has 2 sources: csi, nfs"),
    ({"cs": {"driver": "a.b"}}, "TW603", "/cs", "did you mean `csi`?"),
    ({"name": "x", "emptyDir": {}}, "TW601", "/name", "remove it"),
    ({"persistentVolumeClaim": {"claimName": "dataset"}}, "TW601", "/persistentVolumeClaim", "{claim: dataset}"),
    ({"persistentVolumeClaim": "dataset"}, "TW601", "/persistentVolumeClaim", "{claim: NAME}"),
    ({"hostPath": {"path": "/x"}}, "TW604", "/hostPath", "hostPath in volume"),
    ({"image": {"reference": "registry.example.com/x:latest"}}, "TW305", "/image/reference", "not pinned"),
    ({"emptyDir": None}, "TW107", "/emptyDir", "remove"),
    ({"emptyDir": {"sizeLimit": "900Ti"}}, "TW218", "/emptyDir/sizeLimit", "no node has 900Ti of disk"),
])  # fmt: skip
def test_what_is_wrong_with_a_volume(volume: Data, code: str, place: str, words: str) -> None:
    cluster = {"kubernetes": "1.36", **of_level("restricted")}
    said = findings(as_script({"mounts": {"/x": {"volume": volume}}}), cluster)
    assert (code, f"/mounts/~1x/volume{place}", True) in [
        (one.code, one.where.pointer, words in f"{one.message}; {one.fix}") for one in said
    ]
    of_pool = overlay(cluster, {"node_pools": {"h100": {"pods": {"mounts": {"/x": {"volume": volume}}}}}})
    assert code in {"TW218", *(one.code for one in findings(as_script({}), of_pool))}


@pytest.mark.parametrize(("part", "words"), [
    ({"containers": [{"kind": "sidecar", "contaner": RELAY["container"]}]}, "did you mean `container`"),
    ({"containers": [{"kind": "sidecar", "container": []}]}, "must be a mapping"),
    ({"containers": [{"kind": "sidecar", "container": {}, "ends_itself": True}]}, "ends_itself is for kind beside"),
    ({"containers": [{"kind": "sidecar", "container": {}, "volumes": ["x"]}]}, "must be a mapping"),
    ({"containers": [{"kind": "sidecar", "container": {}, "volumes": [{"name": "x", "same_as": "x"}]}]}, "an absolute path"),
    ({"containers": [RELAY, RELAY]}, "two containers are called relay"),
    ({"mounts": {"/x": {"volum": {"csi": {}}}}}, "did you mean `volume`"),
    ({"mounts": {"/x": {"volume": {"emptyDir": {}}, "sub_path": "../x"}}}, "must stay inside the volume"),
])  # fmt: skip
def test_what_is_no_form_of_either(part: Data, words: str) -> None:
    with pytest.raises(CompileError) as refused:
        validate_data(Run, overlay(RUN, part), "run.yaml", {})
    (finding,) = refused.value.findings
    assert words in f"{finding.message}; {finding.fix}"


def test_a_mistake_is_found_on_its_line() -> None:
    text = """\
containers:
  - kind: sidecar
    container:
      name: relay
      image: registry.example.com/tools/relay:v1
      livenessProbe:
        httpGt: {path: /well, port: 8080}
    volumes:
      - name: sockets
        csi: {drivr: sockets.example.com}
"""
    base = {key: value for key, value in RUN.items() if key != "containers"}
    head = "".join(f"{key}: {json.dumps(value)}\n" for key, value in base.items())
    with pytest.raises(CompileError) as refused:
        compile_text(json.dumps(CLUSTER), head + text)
    first = len(head.splitlines())
    places = [(one.code, (one.where.line or 0) - first) for one in refused.value.findings]
    assert places == [("TW603", 7), ("TW603", 10), ("TW603", 10)]


def test_an_unknown_version_is_one_finding() -> None:
    codes = [one.code for one in findings(as_script({"containers": [RELAY]}), {"kubernetes": "1.99"})]
    assert codes == ["TW307"]


# Names, and what a pool brings along.


def test_containers_may_call_their_volumes_alike() -> None:
    other = relay({"name": "relay-2", "ports": None})
    spec = pod_of({"containers": [RELAY, other]})["spec"]
    names = [mount["name"] for one in spec["initContainers"] for mount in one["volumeMounts"]]
    assert names == ["of-relay-0", "checkpoints", "of-relay-2-0", "checkpoints"]
    of_node = [{"name": "sockets", "hostPath": {"path": "/x"}}, RELAY["volumes"][1]]
    (said,) = findings(as_script({"containers": [RELAY, {**other, "volumes": of_node}]}))
    assert said.where.pointer == "/containers/1/volumes/0/hostPath"


def test_a_claim_keeps_the_name_of_a_volume() -> None:
    claims = {"namespaces": {"training": {"claims": {"volume-1": {"managed": False}}}}}
    mounts = {"/a": {"volume": {"emptyDir": {}}}, "/checkpoints": {"claim": "checkpoints"}, "/b": {"claim": "volume-1"}}
    before = pod_of({"mounts": {"/b": {"claim": "volume-1"}}}, claims)["spec"]["volumes"]
    after = pod_of({"mounts": mounts, "files": {}}, claims)["spec"]["volumes"]
    named = {volume["name"]: next(iter(volume.keys() - {"name"})) for volume in after}
    assert [one for one in before if one["name"] == "volume-1"] == [one for one in after if one["name"] == "volume-1"]
    assert sorted(named.items()) == sorted(dict(named).items())
    assert len(named) == len(after)


def test_a_pool_brings_them_along() -> None:
    shared = [RELAY["volumes"][0], {"name": "saved", "same_as": "/fast"}]
    pods: Data = {"containers": [relay(volumes=shared)], "mounts": {"/fast": FAST}}
    spec = pod_of({}, {"node_pools": {"h100": {"pods": pods}}})["spec"]
    (mount,) = [one for one in spec["containers"][0]["volumeMounts"] if one["mountPath"] == "/fast"]
    assert mount == {"name": "of-pool-0", "mountPath": "/fast", "subPath": "a/b", "readOnly": True}
    assert [one["name"] for one in spec["initContainers"][0]["volumeMounts"]] == ["of-relay-0", "of-pool-0"]
    own = pod_of({"containers": [relay({"args": ["mine"]})]}, {"node_pools": {"h100": {"pods": pods}}})
    assert [one["args"] for one in own["spec"]["initContainers"]] == [["mine"]]
    wrong = {"containers": [relay({"livenesProbe": {}})]}
    said = findings(as_script({}), {"node_pools": {"h100": {"pods": wrong}}})
    assert [(one.code, one.where.pointer) for one in said] == [
        ("TW603", "/node_pools/h100/pods/containers/0/container/livenesProbe")
    ]


@pytest.mark.parametrize("where", ["container", "pool"])
def test_a_folder_of_an_image_is_mounted_wherever_it_is_stated(where: str) -> None:
    mounts = {"/models": {"image": IMAGE, "sub_path": "llama"}}
    helper = {"name": "helper", "kind": "sidecar", **AMOUNTS, "mounts": mounts}
    of_pool = {"node_pools": {"h100": {"pods": {"mounts": mounts}}}} if where == "pool" else {}
    run = {"containers": [helper]} if where == "container" else {}
    spec = pod_of(run, {"kubernetes": "1.36", **of_pool, **of_level("baseline")})["spec"]
    mounted = [mount for one in (*spec.get("initContainers", []), *spec["containers"]) for mount in one.get("volumeMounts", [])]
    assert [one["subPath"] for one in mounted if one["mountPath"] == "/models"] == ["llama"]


def test_overrides_leave_them_alone() -> None:
    patch = {"initContainers": [{"name": "relay", "livenessProbe": None}]}
    said = findings(as_script({"containers": [RELAY], "overrides": {"pod": {"node": patch}}}))
    assert ("TW601", True) in [(one.code, "change containers" in one.fix) for one in said]


def test_a_rehearsal_says_what_it_does_not_play() -> None:
    beside = relay({"name": "watcher", "ports": None}, kind="beside", ends_itself=True)
    result = compiled(as_script({"containers": [RELAY, beside], "mounts": {"/fast": FAST}}))
    objects, absent = leave_out_containers(find_objects(list(result.manifests)), options())
    image = IMAGE.partition("@")[0]
    assert [str(one) for one in absent] == [
        f"left out: container {name}: its program is only in image {image}" for name in ("relay", "watcher")
    ]
    assert not [one for one in check_objects(objects, None, options()) if "volume" in one.where]


def test_editors_know_both_forms() -> None:
    schema = jsonschema.Draft202012Validator(file_schema(Run))
    for run in ({"containers": [RELAY]}, {"mounts": {"/fast": FAST}}, {"containers": [{"name": "x", "kind": "init", **AMOUNTS}]}):
        assert list(schema.iter_errors(overlay(RUN, run))) == []
    assert list(schema.iter_errors(overlay(RUN, {"containers": [RELAY | {"volums": []}]})))
