"""A stage for rehearsals: manifests of a small run, and an observer that remembers."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.processes import PATIENCE_SECONDS

from trainwright.operators.ending import Decision, PodEnd
from trainwright.rehearsal import Observer, Opening, Options, Outcome, rehearse
from trainwright.rehearsal.observer import Event
from trainwright.rehearsal.setting import MARKER
from trainwright.rehearsal.stated.objects import find_objects, find_specification
from trainwright.rehearsal.stated.pod import Pod
from trainwright_trainer.contract.layout import COMPLETE_MARKER

ROOT = Path(__file__).resolve().parents[3]
DIST = ROOT / "dist"
DIGITS = DIST / "laptop" / "training" / "runs" / "digits-ddp.k8s.yaml"
LLAMA = DIST / "h100-ib" / "training" / "runs" / "llama-1b-ddp.k8s.yaml"
SCRIPT = DIST / "h100-ib" / "training" / "runs" / "own-script.k8s.yaml"
COMMAND = DIST / "h100-ib" / "training" / "runs" / "torchrun-command.k8s.yaml"

Manifest = dict[str, Any]
JOB = "probe-a1b2c3d4"
PORT = 9400
PATIENT = {"timeout_seconds": PATIENCE_SECONDS, "ready_seconds": PATIENCE_SECONDS}
NETWORK: Any = os.environ.get("REHEARSAL_NETWORK")
"""``own`` or ``loopback``, where a test is not about one; None for their own where this machine lets pods have them."""


def manifests(program: str, pods: int = 1, **container: Any) -> list[Manifest]:
    """ConfigMap, Service and Job of a run whose pods run ``program``, a Python script that the ConfigMap carries."""
    meta = {"namespace": "training"}
    return [
        {
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": JOB, **meta},
            "data": {"program.py": program, "note": "/data/x"},
        },
        {
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": JOB, **meta},
            "spec": {
                "clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"batch.kubernetes.io/job-name": JOB},
                "ports": [{"name": "http", "port": PORT, "targetPort": "http"}],
            },
        },
        {
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": JOB, **meta},
            "spec": {
                "completionMode": "Indexed", "completions": pods, "parallelism": pods,
                "backoffLimitPerIndex": 1, "maxFailedIndexes": 0,
                "podFailurePolicy": {"rules": [
                    {"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "In", "values": [10]}},
                    {"action": "Ignore", "onExitCodes": {"containerName": "main", "operator": "In", "values": [202]}},
                ]},
                "template": {
                    "metadata": {"labels": {"app.kubernetes.io/name": "probe"}},
                    "spec": {
                        "restartPolicy": "Never", "subdomain": JOB, "terminationGracePeriodSeconds": 20,
                        "containers": [{
                            "name": "main", "image": "registry.example.com/probe@sha256:0",
                            "command": ["python", "/code/program.py"],
                            "ports": [{"name": "http", "containerPort": PORT}],
                            "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
                            "volumeMounts": [{"name": "code", "mountPath": "/code"}, {"name": "data", "mountPath": "/data"}],
                            **container,
                        }],
                        "volumes": [
                            {"name": "code", "configMap": {"name": JOB}},
                            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
                        ],
                    },
                },
            },
        },
    ]


def job_set(found: list[Manifest], *jobs: Manifest, **spec: Any) -> list[Manifest]:
    """The same with a JobSet in place of the Job, which is the template of each of ``jobs``."""
    job = of_kind(found, "Job")
    replicated = [{**fields, "template": {"spec": job["spec"]}} for fields in jobs]
    return [
        of_kind(found, "ConfigMap"),
        {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": job["metadata"],
         "spec": {"replicatedJobs": replicated, **spec}},
    ]  # fmt: skip


def of_kind(objects: list[Manifest], kind: str) -> Manifest:
    return next(manifest for manifest in objects if manifest["kind"] == kind)


def container_of(objects: list[Manifest]) -> Manifest:
    container: Manifest = of_kind(objects, "Job")["spec"]["template"]["spec"]["containers"][0]
    return container


def edit_specification(objects: list[Manifest], edit: Callable[[Any], object]) -> None:
    """Change the run's specification where the ConfigMap has it."""
    data = of_kind(objects, "ConfigMap")["data"]
    document = json.loads(data["run.json"])
    edit(document)
    data["run.json"] = json.dumps(document)


def complete(found: list[Manifest], workspace: Path) -> Path:
    """Bring a workspace to where the run of these manifests is complete. Returns the folder of its state."""
    objects = find_objects(found)
    specification = find_specification(objects.config_maps)
    assert specification
    state = Path(specification.spec.state_directory or "")
    mounted = (pair for slot in objects.slots for pair in slot.spec.mounted_claims(slot.spec.main))
    folder = next(
        workspace / "claims" / claim.claim_name / state.relative_to(mount.mount_path)
        for mount, claim in mounted if state.is_relative_to(mount.mount_path)
    )
    folder.mkdir(parents=True)
    (folder / COMPLETE_MARKER).write_text(json.dumps({"identity": specification.spec.identity}))
    (workspace / MARKER).touch()
    return folder


@dataclass
class Recorder(Observer):
    """Remembers everything it is told."""

    openings: list[Opening] = field(default_factory=list)
    started: list[Pod] = field(default_factory=list)
    ready: list[Pod] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    lines: list[tuple[int, str]] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)

    def opened(self, opening: Opening) -> None:
        self.openings.append(opening)

    def pod_started(self, pod: Pod) -> None:
        self.started.append(pod)

    def pod_ready(self, pod: Pod) -> None:
        self.ready.append(pod)

    def pod_event(self, pod: Pod, text: str) -> None:
        self.events.append(text)

    def log_line(self, pod: Pod, container: str, line: str) -> None:
        self.lines.append((pod.index, line))

    def log_event(self, pod: Pod, container: str, event: Event) -> None:
        self.lines.append((pod.index, event.name))

    def pod_ended(self, pod: Pod, end: PodEnd) -> None:
        pass

    def decided(self, end: PodEnd, decision: Decision, delay_seconds: float) -> None:
        self.decisions.append(decision)

    def stopping(self, reason: str) -> None:
        pass

    def said(self, index: int) -> list[str]:
        """Lines of the pods of one index."""
        return [line for of, line in self.lines if of == index]


def options(**changes: Any) -> Options:
    return Options(**{"pace": 0.005, **PATIENT, "network": NETWORK, **changes})


def play(
    found: list[Manifest], workspace: Path, recorder: Recorder | None = None, **changes: Any
) -> tuple[Outcome, Recorder]:
    recorder = recorder or Recorder()
    return rehearse(found, workspace, options(**changes), recorder), recorder


def stated(recorder: Recorder) -> Iterator[str]:
    for opening in recorder.openings:
        yield from map(str, opening.differences)
