"""Pods that the API server or a node refuses: in manifests of any origin, and in what overrides make of a run."""

from __future__ import annotations

import os
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from tests.compiler.example import Data, codes, command, compiled, findings, pod
from tests.compiler.objects import catalogue, needs_crds, the
from tests.compiler.targets import CASES, on, profile_for

from trainwright.reading.document import parse_yaml
from trainwright.validate import Catalogue, CheckedBy, check_manifests, object_problems, validate_files
from trainwright.validate.core_schemas import known_version
from trainwright.validate.manifests import Manifest

MANIFESTS = os.environ.get("TRAINWRIGHT_MANIFESTS")
PRIVILEGED: Data = {"namespaces": {"training": {"pod_security": "privileged"}}}
LONG = "n" * 300


def pod_with(container: Data, spec: Data | None = None) -> Data:
    return {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x", **container}], **(spec or {})}


def job(container: Data, spec: Data | None = None) -> Data:
    return {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"},
        "spec": {"template": {"spec": pod_with(container, spec)}},
    }  # fmt: skip


def widget(container: Data, spec: Data | None = None) -> Data:
    """Of a kind that nobody has a definition of, with a pod at a place of its own."""
    return {
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "x"},
        "spec": {"groups": [{"pod": {"spec": pod_with(container, spec)}}]},
    }  # fmt: skip


def said(manifest: Data) -> list[str]:
    read = Manifest(manifest, parse_yaml("{}", "x.yaml"), "")
    report = check_manifests([(read, known_version(None))], Catalogue())
    return [f"{finding.code} {finding.message}" for finding in report.findings if finding.code != "TW702"]


def mounted(path: str, source: Data | None = None, **mount: Any) -> tuple[Data, Data]:
    volume = {"name": "v", **(source or {"emptyDir": {}})}
    return {"volumeMounts": [{"name": "v", "mountPath": path, **mount}]}, {"volumes": [volume]}


SCRIPTS: Data = {"configMap": {"name": "scripts"}}
RUNNABLE: Data = {"configMap": {"name": "scripts", "defaultMode": 493}}


def runs(program: str, source: Data, path: str, **mount: Any) -> tuple[Data, Data]:
    container, spec = mounted(path, source, **mount)
    return {"command": [program], **container}, spec


LISTENS: Data = {"tcpSocket": {"port": 80}}


def init(container: Data) -> Data:
    return {"initContainers": [{"name": "first", "image": "x", **container}]}


def file_of(path: str, field: str) -> Data:
    return {"path": path, "fieldRef": {"fieldPath": field}}


def projected(*sources: Data) -> Data:
    return {"volumes": [{"name": "v", "projected": {"sources": list(sources)}}]}


BROKEN: dict[str, tuple[Data, Data, str]] = {
    "privileged without escalation": (
        {"securityContext": {"privileged": True, "allowPrivilegeEscalation": False}}, {}, "TW705 a privileged container",
    ),
    "root that must not be": ({"securityContext": {"runAsUser": 0, "runAsNonRoot": True}}, {}, "TW713 the container runs as"),
    "root of the pod": (
        {"securityContext": {"runAsNonRoot": True}}, {"securityContext": {"runAsUser": 0}}, "TW713 the container runs as user 0",
    ),
    "claim that the pod lacks": ({"resources": {"claims": [{"name": "gpu"}]}}, {}, "TW705 the pod has no resource claim gpu"),
    **{
        f"key {key}": (
            {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": key}}}]}, {}, "TW705 the key",
        )
        for key in (".", "..", "..data", "a/b")
    },
    "key of a volume": (
        {}, {"volumes": [{"name": "v", "secret": {"secretName": "s", "items": [{"key": "..a", "path": "x"}]}}]}, "TW705 the key"
    ),
    "NUL in a variable": ({"env": [{"name": "A", "value": "a\0b"}]}, {}, "TW713 A holds a NUL"),
    "NUL in the command": ({"command": ["a", "b\0"]}, {}, "TW713 a word of the command"),
    "empty command": ({"command": [""]}, {}, "TW713 the first word"),
    **{
        f"mount at {path}": (*mounted(path), "TW713 a mount at")
        for path in ("/proc", "/proc/", "/proc/sys", "/sys/fs", "/bin", "/usr", "/usr/lib")
    },
    "long name": (*mounted(f"/data/{LONG}"), "TW713 /data/"),
    "file above a folder": (
        {"volumeMounts": [{"name": "v", "mountPath": "/etc/x", "subPath": "x"}, {"name": "w", "mountPath": "/etc/x/y"}]},
        {"volumes": [{"name": "v", **SCRIPTS}, {"name": "w", "emptyDir": {}}]},
        "TW713 /etc/x/y lies below /etc/x",
    ),
    "script that cannot be run": (*runs("/app/start.sh", SCRIPTS, "/app"), "TW713 the command runs /app/start.sh"),
    "script by its key": (*runs("/app/start.sh", SCRIPTS, "/app/start.sh", subPath="start"), "TW713 the command runs"),
    **{
        f"init container with {field}": ({}, init({field: value}), f"TW705 an init container that ends cannot have {field}")
        for field, value in (*((f"{probe}Probe", LISTENS) for probe in ("liveness", "readiness", "startup")),
                             ("lifecycle", {"preStop": {"sleep": {"seconds": 1}}}))
    },
    "probe of two ways": ({"livenessProbe": {**LISTENS, "exec": {"command": ["x"]}}}, {}, "TW705 /livenessProbe does 2 things"),
    "probe of no way": ({"readinessProbe": {"periodSeconds": 5}}, {}, "TW705 /readinessProbe does nothing"),
    "probe of a sidecar": ({}, init({"startupProbe": {}, "restartPolicy": "Always"}), "TW705 /startupProbe does nothing"),
    "hook of no way": ({"lifecycle": {"postStart": {}}}, {}, "TW705 /lifecycle/postStart does nothing"),
    "two successes": ({"startupProbe": {**LISTENS, "successThreshold": 2}}, {}, "TW705 /startupProbe/successThreshold is 2"),
    "huge pages alone": ({"resources": {"limits": {"hugepages-2Mi": "4Mi"}}}, {}, "TW705 the container asks for huge pages"),
    "gate twice": (
        {}, {"schedulingGates": [{"name": "x.y/a"}, {"name": "x.y/a"}]}, "TW706 item 1 of schedulingGates has the same name",
    ),
    "half a huge page": (
        {"resources": {"limits": {"hugepages-2Mi": "5Mi", "cpu": 1}}}, {}, "TW705 5Mi is no whole number of pages of 2Mi",
    ),
    "step back on the node": ({}, {"volumes": [{"name": "v", "hostPath": {"path": "/a/../b"}}]}, "TW705 volume v is /a/../b"),
    "field of a variable in a file": (
        {}, {"volumes": [{"name": "v", "downwardAPI": {"items": [file_of("a", "spec.nodeName")]}}]}, "TW705 a file cannot hold",
    ),
    "field of a variable among files": (
        {}, projected({"downwardAPI": {"items": [file_of("a", "status.podIP")]}}), 'TW705 a file cannot hold "status.podIP"',
    ),
    **{
        f"one file from two sources, {kind}": (
            {}, projected({"configMap": {"name": "a", "items": [{"key": "k", "path": "f"}]}}, {kind: source}),
            'TW705 two sources of volume v write the file "f"',
        )
        for kind, source in {
            "secret": {"name": "b", "items": [{"key": "k", "path": "f"}]},
            "downwardAPI": {"items": [file_of("f", "metadata.name")]},
            "clusterTrustBundle": {"name": "c", "path": "f"},
        }.items()
    },
    "value and its source": (
        {"env": [{"name": "A", "value": "a", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}, {},
        "TW705 A has a value and a valueFrom",
    ),
    **{
        f"{path} in a {kind}": (
            {}, {"volumes": [{"name": "v", kind: {named: "a", "items": [{"key": "k", "path": path}]}}]}, f"TW705 {said}"
        )
        for kind, named in (("secret", "secretName"), ("configMap", "name"))
        for path, said in (("/a", '"/a" is a path in a volume'), ("a/../b", '"a/../b" is a path in a volume, and cannot hold'))
    },
    "absolute path among files": (
        {}, projected({"secret": {"name": "a", "items": [{"key": "k", "path": "/f"}]}}), 'TW705 "/f" is a path in a volume',
    ),
    "folder outside its volume": (*mounted("/x", subPath="../y"), 'TW705 "../y" is a path in a volume'),
    "expression outside its volume": (*mounted("/x", subPathExpr="/$(A)"), 'TW705 "/$(A)" is a path in a volume'),
    "port that has no such name": (
        {}, init({"livenessProbe": {"tcpSocket": {"port": "well"}}, "restartPolicy": "Always", "ports": [{"containerPort": 80}]}),
        "TW713 livenessProbe asks port well",
    ),
    "variable of a shell": ({"env": [{"name": "PATH", "value": "/opt/bin:$PATH"}]}, {}, "TW419 PATH holds $PATH"),
}  # fmt: skip


@pytest.mark.parametrize("made", [job, widget])
@pytest.mark.parametrize("name", BROKEN)
def test_what_cannot_start_is_found_in_every_kind(name: str, made: Any) -> None:
    container, spec, words = BROKEN[name]
    (found,) = said(made(container, spec))
    assert found.startswith(words)


FINE: dict[str, tuple[Data, Data]] = {
    "privileged": ({"securityContext": {"privileged": True, "runAsUser": 0}}, {"hostNetwork": True}),
    "claim": ({"resources": {"claims": [{"name": "gpu"}]}}, {"resourceClaims": [{"name": "gpu", "resourceClaimName": "x"}]}),
    "huge pages": ({"resources": {"limits": {"hugepages-1Gi": "2Gi", "memory": "1Gi"}}}, {}),
    "files of the pod": ({}, projected(
        {"downwardAPI": {"items": [file_of("a", "metadata.labels"), file_of("b", "metadata.annotations['x/y']")]}},
        {"configMap": {"name": "a", "items": [{"key": "k", "path": "c"}]}},
    )),
    "all files of the node": ({}, {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}),
    "dot": ({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": ".dockerconfigjson"}}}]}, {}),
    "references": ({"env": [{"name": "A", "value": "$(B) costs $5, or $$B"}]}, {}),
    **{f"mount at {path}": mounted(path) for path in ("/usr/local/nvidia", "/data", "/var/run/x", "/lib/modules")},
    "the node's": mounted("/sys", {"hostPath": {"path": "/sys"}}),
    "script": runs("/app/start.sh", RUNNABLE, "/app"),
    "script by its item": runs(
        "/app/start.sh", {"configMap": {"name": "s", "items": [{"key": "a", "path": "start.sh", "mode": 0o555}]}}, "/app"
    ),
    "interpreter": runs("bash", SCRIPTS, "/app"),
    "program beside": runs("/opt/start", SCRIPTS, "/app"),
    "sidecar with a probe": ({}, init({"livenessProbe": LISTENS, "restartPolicy": "Always"})),
    "readiness after two successes": ({"readinessProbe": {**LISTENS, "successThreshold": 2}}, {}),
    "hooks": ({"lifecycle": {"postStart": {"exec": {"command": ["x"]}}, "preStop": {"sleep": {"seconds": 1}}}}, {}),
    "empty value": ({"env": [{"name": "A", "value": "", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}, {}),
}


@pytest.mark.parametrize("made", [job, widget])
@pytest.mark.parametrize("name", FINE)
def test_what_can_start_is_left_alone(name: str, made: Any) -> None:
    assert said(made(*FINE[name])) == []


@pytest.mark.parametrize("kind", ["Secret", "ConfigMap"])
@pytest.mark.parametrize("key", [".", "..", "..data"])
def test_keys_of_secrets(kind: str, key: str) -> None:
    manifest: Data = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}, "data": {key: ""}}
    (found,) = said(manifest)
    assert found.startswith("TW705 the key")
    assert said(manifest | {"data": {".config": "", "a": ""}}) == []


def test_a_runtime_is_completed_by_its_train_job() -> None:
    runtime = widget({"volumeMounts": [{"name": "elsewhere", "mountPath": "/data"}]})
    assert said(runtime) != []
    completed = {**runtime, "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainingRuntime"}
    assert [it.partition("(")[0] for it in said(completed)] == ["TW703 /spec has no field `groups` "]


@pytest.mark.skipif(not MANIFESTS, reason="TRAINWRIGHT_MANIFESTS names no folder of public manifests")
def test_public_manifests_start_but_for_what_is_to_be_filled_in() -> None:
    """They are privileged, use the node's network and its folders: nothing of that is refused. One sets PATH from $PATH; those of
    AWS are filled in by a shell before they are applied.
    """
    report = validate_files([Path(str(MANIFESTS))], None)
    found = [finding for finding in report.findings if finding.code in ("TW713", "TW419")]
    variables = ("mpijob-aws-nccl-tests.yaml", "pytorchjob-aws-llama3-8b-fsdp.yaml")
    expected = {(name, code) for name in variables for code in ("TW419", "TW713")} | {("pytorchjob-aws-composer.yaml", "TW713")}
    assert {(Path(str(one.where.file)).name, one.code) for one in found} == expected
    assert {one.where.pointer.rpartition("/")[2] for one in found if one.code == "TW713"} == {"image"}


# The same in a run


def main(**fields: Any) -> Data:
    return pod({"containers": [{"name": "trainer", **fields}]})


@pytest.mark.parametrize(
    "fields",
    [
        {"securityContext": {"privileged": True}},
        {"securityContext": {"runAsUser": 0}},
        {"resources": {"claims": [{"name": "gpu"}]}},
        {"env": [{"name": "A", "value": "a\0b"}]},
        {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "..data"}}}]},
    ],
    ids=str,
)
def test_an_override_that_no_node_can_start(fields: Data) -> None:
    assert "TW603" in codes(main(**fields), PRIVILEGED)


def test_an_override_that_mounts_where_nothing_can_be_mounted() -> None:
    assert codes(main(volumeMounts=[{"name": "tmp", "mountPath": "/proc"}]), PRIVILEGED) == ["TW233"]


def test_user_0_of_the_pod() -> None:
    (found,) = findings(pod({"securityContext": {"runAsUser": 0}}), PRIVILEGED)
    assert found.code == "TW603"


@pytest.mark.parametrize("path", ["/proc", "/proc/x", "/sys/fs", "/bin", "/usr", f"/{LONG}", f"/data/{LONG}/x"])
@pytest.mark.parametrize("field", ["mounts", "files"])
def test_places_where_nothing_can_be_mounted(path: str, field: str) -> None:
    value = {"mounts": {"scratch": "1Gi"}, "files": "text"}[field]
    (found,) = findings({field: {path: value}})
    assert (found.code, found.where.pointer.split("/")[1]) == ("TW233", field)


def test_a_driver_below_usr_local_is_fine() -> None:
    assert codes({"mounts": {"/usr/local/nvidia": {"scratch": "1Gi"}}}) == []


def test_a_folder_of_a_claim_has_names_that_a_file_system_takes() -> None:
    (found,) = findings({"mounts": {"/checkpoints": {"claim": "checkpoints", "sub_path": f"a/{LONG}"}}})
    assert (found.code, found.where.pointer) == ("TW233", "/mounts/~1checkpoints/sub_path")


def test_a_file_below_a_file() -> None:
    (found,) = findings({"files": {"/etc/x": "a", "/etc/x/y": "b"}})
    assert (found.code, found.where.pointer) == ("TW233", "/files/~1etc~1x~1y")
    assert codes({"files": {"/etc/x": "a", "/etc/xy": "b"}}) == []


@pytest.mark.parametrize("words", [("/app/run.sh",), ("bash", "-c", "/app/run.sh --fast")])
def test_a_file_of_the_run_is_started_by_its_interpreter(words: tuple[str, ...]) -> None:
    files: Data = {"files": {"/app/run.sh": "exec python train.py"}}
    assert "TW418" in codes({**command(*words), **files})
    assert "TW418" not in codes({**command("bash", "/app/run.sh"), **files})
    assert "TW418" not in codes({**command(*words), **files, "file_modes": {"/app/run.sh": "0555"}})
    assert "TW418" in codes({**command(*words), **files, "file_modes": {"/app/run.sh": "0444"}})


@pytest.mark.parametrize("value", ["/opt/bin:$PATH", "${HOME}/x"])
def test_a_variable_that_nobody_expands(value: str) -> None:
    (found,) = findings({"env": {"EXTRA": value}})
    assert (found.code, found.where.pointer) == ("TW419", "/env/EXTRA")
    (found,) = findings(main(env=[{"name": "EXTRA", "value": value}]))
    assert found.code == "TW419"
    waiver = {"code": "TW419", "reason": "the program expands it itself", "expires": "2026-12-31"}
    assert "TW612" not in codes({"env": {"EXTRA": value}, "waivers": [waiver]})


# Fields that a kind does not have


UNKNOWN: dict[str, tuple[str, Data]] = {
    "train-job": ("TrainJob", {"spec": {"foo": "bar"}}),
    "job-set": ("JobSet", {"spec": {"foo": {"bar": 1}}}),
    "pytorch-job": ("PyTorchJob", {"spec": {"runPolicy": {"activeDeadlineSecond": 1}}}),
    "ray-job": ("RayJob", {"spec": {"rayClusterSpec": {"foo": "bar"}}}),
    "volcano-job": ("Job", {"spec": {"foo": [1]}}),
    "mpi-job": ("MPIJob", {"foo": "bar"}),
}


@pytest.mark.parametrize("target", UNKNOWN)
def test_a_field_that_the_kind_does_not_have(target: str) -> None:
    kind, patch = UNKNOWN[target]
    run = on(target, overrides={"objects": [{"target": target, "kind": kind, "patch": patch}]})
    (found,) = [one for one in findings(run, profile_for(target)) if one.code.startswith("TW6")]
    assert found.code == "TW603"
    assert "activeDeadlineSeconds" in found.fix or kind not in ("PyTorchJob", "TrainJob")


def test_annotations_of_a_train_job_are_not_in_its_spec() -> None:
    for patch in ({"annotations": {"a": "b"}}, {"labels": {"a": "b"}}):
        run = on("train-job", overrides={"objects": [{"target": "train-job", "kind": "TrainJob", "patch": {"spec": patch}}]})
        assert "TW603" in codes(run, profile_for("train-job"))


@needs_crds
@pytest.mark.parametrize("field", ["foo", "annotations", "labels"])
def test_with_definitions_at_hand_validate_finds_them_too(field: str) -> None:
    job = deepcopy(the(compiled(on("train-job"), profile_for("train-job")), "TrainJob"))
    job["spec"][field] = {"a": "b"}
    problems, by = object_problems(job, catalogue(), known_version(None))
    assert by is CheckedBy.SCHEMA
    assert [(problem.code, problem.pointer) for problem in problems] == [("TW703", f"/spec/{field}")]


DEADLINES: dict[str, Data] = {
    "job-set": {"replicatedJobs": [{"name": "node", "template": {"spec": {"activeDeadlineSeconds": 60}}}]},
    "train-job": {"activeDeadlineSeconds": 60},
    "ray-job": {"activeDeadlineSeconds": 60},
    "pytorch-job": {"runPolicy": {"activeDeadlineSeconds": 60}},
}


@pytest.mark.parametrize("target", DEADLINES)
def test_fields_of_the_kind_are_free(target: str) -> None:
    kind = CASES[target].kind[1]
    run = on(target, overrides={"objects": [{"target": target, "kind": kind, "patch": {"spec": DEADLINES[target]}}]})
    assert [code for code in codes(run, profile_for(target)) if code.startswith("TW6")] == []
