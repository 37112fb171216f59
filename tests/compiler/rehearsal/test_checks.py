"""What the manifests show before a process runs: each break of the emitted YAML is told with its reason."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.compiler.rehearsal.stage import (
    COMMAND,
    DIGITS,
    PORT,
    SCRIPT,
    Manifest,
    container_of,
    edit_specification,
    first_address,
    manifests,
    of_kind,
    options,
    play,
)

from trainwright.rehearsal import Blocker, CannotPlayError, CannotWorkError, checks, rehearse
from trainwright.rehearsal.checks import check_job, check_objects
from trainwright.rehearsal.objects import find_objects, find_specification, objects_in

Edit = Callable[[list[Manifest]], object]


def problems(found: list[Manifest], **changes: Any) -> list[Blocker]:
    objects = find_objects(found)
    specification = find_specification(objects.config_maps)
    return [*check_job(objects.job), *check_objects(objects, specification, options(**changes))]


def broken(edit: Edit, path: Path = DIGITS) -> list[str]:
    found = objects_in(path)
    edit(found)
    return [str(problem) for problem in problems(found)]


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


@pytest.mark.parametrize("path", [DIGITS, COMMAND], ids=lambda path: path.name)
def test_what_we_emit_has_no_problem(path: Path) -> None:
    assert not problems(objects_in(path))


def test_a_secret_needs_a_stated_value() -> None:
    [problem] = problems(objects_in(SCRIPT), environment={"PATH": "/usr/bin"})
    assert problem.where.endswith("env WANDB_API_KEY")
    assert not problems(objects_in(SCRIPT), environment={"WANDB_API_KEY": "x"})


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
        (lambda found: pod_spec(found)["volumes"].append({"name": "disk", "hostPath": {"path": "/"}}),
         "volumes of kind hostPath"),
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
        (job(completions=3, parallelism=3), "completions is 3, and world.nodes in ConfigMap"),
        (lambda found: of_kind(found, "Job")["spec"].update(parallelism=1), "2 pods wait for each other"),
        (lambda found: of_kind(found, "Job")["spec"].update(suspend=True), "it is suspended"),
        (lambda found: of_kind(found, "Job")["spec"].update(completionMode="NonIndexed"), "completionMode is NonIndexed"),
        (lambda found: of_kind(found, "Job")["spec"].pop("completions"), "completions is not set"),
        (lambda found: of_kind(found, "Job")["spec"].update(successPolicy={"rules": []}), "it has a successPolicy"),
        (lambda found: pod_spec(found).update(restartPolicy="OnFailure"), "restartPolicy is OnFailure"),
        (lambda found: pod_spec(found).update(hostNetwork=True), "hostNetwork"),
        (lambda found: pod_spec(found).update(initContainers=[{"name": "side", "restartPolicy": "Always", "command": ["true"]}]),
         "it is a sidecar"),
    ],
)
def test_a_job_that_cannot_be_played(edit: Edit, reason: str) -> None:
    assert any(reason in problem for problem in broken(edit))


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (lambda found: found.remove(of_kind(found, "Job")), "they hold no Job"),
        (lambda found: found.append(of_kind(found, "Job")), "they hold 2 Jobs"),
        (lambda found: of_kind(found, "Job").update(apiVersion="jobset.x-k8s.io/v1alpha2", kind="JobSet"),
         "a JobSet of jobset.x-k8s.io carries the run"),
        (lambda found: of_kind(found, "Job").update(apiVersion="batch.volcano.sh/v1alpha1"), "manifests: "),
        (lambda found: of_kind(found, "Job")["spec"].pop("template"), "spec.template: field required"),
        (lambda found: pod_spec(found).update(containers=[]), "spec.template.spec.containers"),
        (lambda found: port(found, "http").update(containerPort="9400"), "containerPort"),
        (lambda found: of_kind(found, "Job")["spec"].update(completions="2"), "spec.completions"),
        (lambda found: of_kind(found, "ConfigMap").update(data={"n": 1}), "data.n"),
    ],
)
def test_manifests_of_another_shape(edit: Edit, reason: str) -> None:
    found = objects_in(DIGITS)
    edit(found)
    with pytest.raises(CannotWorkError) as refused:
        find_objects(found)
    assert reason in str(refused.value)


def test_an_invalid_specification_is_left_to_the_supervisor() -> None:
    assert not broken(run_json(lambda document: document.update(surprise=1)))


@pytest.mark.parametrize("missing", ["torch", "transformers"])
def test_a_library_that_is_not_installed_here_is_told_before_a_pod_starts(
    missing: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(checks, "distributions", lambda name: () if name == missing else (name,))
    with pytest.raises(CannotPlayError) as refused:
        rehearse(objects_in(DIGITS), tmp_path / "w", options())
    assert f"the ranks need {missing}, and {sys.prefix} does not have it" in str(refused.value)
    assert "-m pip install 'trainwright-trainer[torch]'" in str(refused.value)
    assert not (tmp_path / "w").exists()


def test_a_kind_that_is_not_played_is_not_called_wrong(tmp_path: Path) -> None:
    found = objects_in(DIGITS)
    of_kind(found, "Job").update(apiVersion="batch.volcano.sh/v1alpha1")
    with pytest.raises(CannotPlayError, match="a rehearsal plays only Jobs of batch") as refused:
        rehearse(found, tmp_path / "w", options())
    assert refused.value.headline == "A rehearsal cannot play this here"


def test_an_address_in_use_is_told(tmp_path: Path) -> None:
    address = first_address()
    with socket.create_server((address, PORT)), pytest.raises(CannotWorkError) as refused:
        play(manifests("", pods=1), tmp_path / "w", first_address=address)
    assert f"port {PORT} is in use" in str(refused.value)


def test_an_address_that_is_not_this_machine_s(tmp_path: Path) -> None:
    with pytest.raises(CannotWorkError) as refused:
        play(manifests("", pods=1), tmp_path / "w", first_address="192.0.2.1")
    assert "sudo ifconfig lo0 alias 192.0.2.1" in str(refused.value)
    assert not (tmp_path / "w").exists()
