"""What the manifests show before a process runs: each break of the emitted YAML is told with its reason."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.compiler.rehearsal.stage import (
    COMMAND,
    DIGITS,
    LLAMA,
    ROOT,
    SCRIPT,
    Manifest,
    container_of,
    edit_specification,
    of_kind,
    options,
)

from trainwright.operators import operator
from trainwright.rehearsal import Blocker, CannotPlayError, CannotWorkError, rehearse
from trainwright.rehearsal.checks import machine
from trainwright.rehearsal.checks.machine import check_run
from trainwright.rehearsal.checks.manifests import check_objects
from trainwright.rehearsal.stated.objects import find_objects, find_specification, objects_in

Edit = Callable[[list[Manifest]], object]


def problems(found: list[Manifest], **changes: Any) -> list[Blocker]:
    objects = find_objects(found)
    specification = find_specification(objects.config_maps)
    return [*check_run(objects), *check_objects(objects, specification, options(**changes))]


def broken(edit: Edit, path: Path = DIGITS) -> list[str]:
    found = objects_in(path)
    edit(found)
    return [str(problem) for problem in problems(found) if "only the image has it" not in problem.message]


def run_json(edit: Callable[[Any], object]) -> Edit:
    return lambda found: edit_specification(found, edit)


def service(**spec: Any) -> Edit:
    return lambda found: of_kind(found, "Service")["spec"].update(spec)


def pod_spec(found: list[Manifest]) -> Any:
    return of_kind(found, "Job")["spec"]["template"]["spec"]


def env(found: list[Manifest], name: str) -> Any:
    return next(one for one in container_of(found)["env"] if one["name"] == name)


def job(**spec: Any) -> Edit:
    return lambda found: of_kind(found, "Job")["spec"].update(spec)


def probe_port(field: str, port: int | str) -> Edit:
    return lambda found: container_of(found)[field]["httpGet"].update(port=port)


def container_port(name: str, number: int) -> Edit:
    return lambda found: port(found, name).update(containerPort=number)


def port(found: list[Manifest], name: str) -> Any:
    return next(one for one in container_of(found)["ports"] if one["name"] == name)


@pytest.mark.parametrize("path", [DIGITS, LLAMA], ids=lambda path: path.name)
def test_what_we_emit_has_no_problem(path: Path) -> None:
    assert not problems(objects_in(path))


@pytest.mark.parametrize("path", [SCRIPT, COMMAND], ids=lambda path: path.name)
def test_a_program_that_only_the_image_has_asks_for_a_folder(path: Path, tmp_path: Path) -> None:
    [problem] = problems(objects_in(path))
    assert "/app/train.py is not on this machine" in problem.message
    assert problem.fix.endswith("--mount /app=FOLDER")
    (tmp_path / "train.py").touch()
    assert not problems(objects_in(path), mounts={"/app": tmp_path})


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (service(selector={"job-name": "other"}), "does not match the pod: it wants job-name=other"),
        (service(selector={}), "it has no selector"),
        (service(clusterIP="10.0.0.1"), "is not headless"),
        (service(publishNotReadyAddresses=False), "does not publish pods before they are ready"),
        (lambda found: found.remove(of_kind(found, "Service")), "which is missing"),
        (lambda found: of_kind(found, "Service")["metadata"].update(name="other"),
         "which is missing (Services beside the Job: other)"),
        (lambda found: pod_spec(found).update(subdomain="other"), "the pods' subdomain is other"),
        (lambda found: pod_spec(found).pop("subdomain"), "the pods' subdomain is not set"),
        (run_json(lambda document: document["world"]["rendezvous"].update(host="nobody.example.com")), "would not resolve"),
        (run_json(lambda document: document["world"]["rendezvous"].update(
            host=document["world"]["rendezvous"]["host"].replace("-0.", "-1."))), "is not pod 0, where rank 0 listens"),
    ],
)
def test_a_rendezvous_that_would_not_resolve(edit: Edit, reason: str) -> None:
    [problem] = broken(edit)
    assert "world.rendezvous.host" in problem
    assert reason in problem


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (container_port("http", 9401), "containerPort is 9401, and http_port in ConfigMap"),
        (container_port("rendezvous", 1234), "containerPort is 1234, and world.rendezvous.port in ConfigMap"),
        (run_json(lambda document: document["world"].update(control_port=29401)),
         "containerPort is 29400, and world.control_port in ConfigMap"),
        (probe_port("readinessProbe", "web"), "readinessProbe: couldn't find port: web"),
        (probe_port("livenessProbe", 9401), "livenessProbe: it probes port 9401"),
        (service(ports=[{"name": "web", "port": 80, "targetPort": "web"}]), "targetPort web names no container port"),
    ],
)
def test_a_wrong_port_is_told_with_both_numbers(edit: Edit, reason: str) -> None:
    [problem] = broken(edit)
    assert reason in problem


def test_a_probe_of_a_sidecar_names_a_port_of_its_own() -> None:
    sidecar = {
        "name": "relay", "image": "x", "restartPolicy": "Always", "command": ["sleep", "600"],
        "startupProbe": {"tcpSocket": {"port": "nope"}},
    }
    [problem] = broken(lambda found: pod_spec(found).update(initContainers=[sidecar]))
    assert "container relay, startupProbe: couldn't find port: nope" in problem


def test_a_port_that_the_container_does_not_declare() -> None:
    def remove(found: list[Manifest]) -> None:
        container_of(found)["ports"].remove(port(found, "control"))
        of_kind(found, "Service")["spec"]["ports"].pop(1)

    [problem] = broken(remove)
    assert "world.control_port in ConfigMap" in problem
    assert "declares no such port" in problem


def test_torchrun_s_port_is_compared_too() -> None:
    [problem] = broken(lambda found: env(found, "PET_MASTER_PORT").update(value="1"), COMMAND)
    assert "env PET_MASTER_PORT: it is 1, and container port rendezvous is 29500" in problem


def test_torchrun_s_address_is_resolved_too() -> None:
    [problem] = broken(service(selector={"x": "y"}), COMMAND)
    assert "env PET_MASTER_ADDR" in problem

    def without_service(found: list[Manifest]) -> None:
        address = env(found, "PET_MASTER_ADDR")
        address["value"] = address["value"].partition(".")[0]

    [problem] = broken(without_service, COMMAND)
    assert "a pod's bare host name resolves only in that pod" in problem


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (lambda found: found.remove(of_kind(found, "ConfigMap")), 'MountVolume.SetUp failed: configmap "digits-ddp-'),
        (lambda found: of_kind(found, "ConfigMap")["metadata"].update(namespace="other"),
         'MountVolume.SetUp failed: configmap "digits-ddp-'),
        (lambda found: pod_spec(found)["volumes"][2]["configMap"].update(items=[{"key": "spec.json", "path": "run.json"}]),
         "configmap references non-existent config key: spec.json"),
        (lambda found: of_kind(found, "ConfigMap").update(data={"other.json": "{}"}), "has no key run.json"),
        (lambda found: pod_spec(found)["volumes"].pop(2), "the pod has no volume spec"),
        (lambda found: env(found, "TRAINWRIGHT_SPEC").update(value="/elsewhere/run.json"),
         "no ConfigMap is mounted in a folder above"),
    ],
)
def test_files_that_would_not_be_there(edit: Edit, reason: str) -> None:
    assert any(reason in problem for problem in broken(edit))


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (lambda found: container_of(found).update(command=["no-such-program"]),
         'exec: "no-such-program": executable file not found in $PATH'),
        (lambda found: container_of(found).update(command=["/opt/no/such"]), 'exec: "/opt/no/such"'),
        (lambda found: container_of(found).pop("command"), "the image's own entrypoint"),
        (job(completions=3, parallelism=3), "3 of its pods read ConfigMap"),
        (lambda found: of_kind(found, "Job")["spec"].update(parallelism=1), "2 pods wait for each other"),
        (lambda found: of_kind(found, "Job")["spec"].update(suspend=True), "it is suspended"),
    ],
)
def test_a_job_that_cannot_be_played(edit: Edit, reason: str) -> None:
    assert any(reason in problem for problem in broken(edit))


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (lambda found: found.remove(of_kind(found, "Job")), "they hold no objects whose pods"),
        (lambda found: found.append(of_kind(found, "Job")), "they hold 2 objects whose pods"),
        (lambda found: of_kind(found, "Job").update(apiVersion="jobset.x-k8s.io/v1alpha2", kind="JobSet"),
         "it needs the field replicatedJobs"),
        (lambda found: of_kind(found, "Job")["spec"].pop("template"), "it needs the field template"),
        (lambda found: of_kind(found, "Job")["spec"].update(completions=0), "its controller would make no pod"),
        (lambda found: pod_spec(found).update(containers=[]), "node: containers"),
        (lambda found: port(found, "http").update(containerPort="9400"), "containerPort"),
        (lambda found: of_kind(found, "Job")["spec"].update(completions="2"), "it cannot be read"),
        (lambda found: of_kind(found, "ConfigMap").update(data={"n": 1}), "data.n"),
    ],
)
def test_manifests_of_another_shape(edit: Edit, reason: str) -> None:
    found = objects_in(DIGITS)
    edit(found)
    with pytest.raises(CannotWorkError) as refused:
        find_objects(found)
    assert reason in str(refused.value)


def test_a_ray_job_whose_environment_is_no_yaml() -> None:
    [job] = objects_in(ROOT / "tests" / "compiler" / "validate" / "cases" / "ray-runtimeenv-yaml.yaml")
    with pytest.raises(CannotWorkError, match="RayJob tune: it cannot be read: runtimeEnvYAML is not YAML"):
        find_objects([job])
    assert operator.made(job, operator.Around()) is None


def test_a_key_that_the_trainer_does_not_know() -> None:
    [said] = broken(run_json(lambda document: document["work"].update(sead=1)))
    assert "the trainer would refuse it, run.json: work.sead is not a known key; did you mean seed?" in said


@pytest.mark.parametrize("missing", ["torch", "transformers"])
def test_a_library_that_is_not_installed_here_is_told_before_a_pod_starts(
    missing: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(machine, "distributions", lambda name, path: () if name.removesuffix("-cpu") == missing else (name,))
    with pytest.raises(CannotPlayError) as refused:
        rehearse(objects_in(DIGITS), tmp_path / "w", options())
    assert f"the ranks need {missing}, and {sys.prefix} does not have it" in str(refused.value)
    assert "-m pip install 'trainwright-trainer[torch]'" in str(refused.value)
    assert not (tmp_path / "w").exists()
