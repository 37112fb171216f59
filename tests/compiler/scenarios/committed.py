"""The runs of charts/runs, compiled as they are committed or with a mistake in them."""

from __future__ import annotations

from datetime import date
from functools import cache
from typing import Any

from tests.compiler.controllers import Pod, pods
from tests.compiler.findings.page import ROOT, overlay

from trainwright.cluster import Cluster
from trainwright.compile import CompiledRun, compile_run
from trainwright.findings import CompileError, Finding
from trainwright.project.build import build_project
from trainwright.project.built import Build
from trainwright.project.load import Project, load_sources
from trainwright.reading import validate_data
from trainwright.reading.document import read_yaml
from trainwright.run import Run

Data = dict[str, Any]
TODAY = date(2026, 7, 1)
CHARTS = ROOT / "charts"

OPAQUE: Data = dict.fromkeys(("batch", "learning_rate"))
"""What an opaque command does not read."""


def command(*words: str) -> Data:
    """The run's work as somebody's own command."""
    return {"workload": {"kind": "command", "command": list(words)}, "security": {"user": 1000}, **OPAQUE}


def script(*words: str) -> Data:
    """The run's work as somebody's own program under the supervisor."""
    work = {"kind": "script", "command": list(words)}
    return {"workload": work, "security": {"user": 1000}, "batch": None, "learning_rate": None}


def patched(target: str, kind: str, spec: Data) -> Data:
    """An override of one object's ``spec``."""
    return {"overrides": {"objects": [{"target": target, "kind": kind, "patch": {"spec": spec}}]}}


def changed(name: str, change: Data, profile: Data | None = None) -> CompiledRun:
    """A committed run with a change of its own, or of its cluster's profile.

    Raises:
        CompileError: as the compiler does.
    """
    data = overlay(read_yaml(CHARTS / "runs" / f"{name}.yaml").data, change)
    cluster = overlay(read_yaml(CHARTS / "clusters" / f"{data['cluster']}.yaml").data, profile or {})
    return compile_run(validate_data(Run, data, None, {}), validate_data(Cluster, cluster, None, {}), today=TODAY)


def said(name: str, change: Data, profile: Data | None = None) -> list[Finding]:
    """What the compiler has to say of it, whether it compiles or not."""
    try:
        return list(changed(name, change, profile).findings)
    except CompileError as error:
        return list(error.findings)


@cache
def run(name: str) -> CompiledRun:
    """A run as it is committed."""
    return changed(name, {})


@cache
def project() -> Build:
    """All runs and foundations, as ``trainwright synth`` compiles them."""
    return build_project(load_sources(Project(ROOT)), TODAY)


def objects(path: str) -> tuple[Data, ...]:
    """Objects of one file of dist/."""
    return tuple(project().outputs[path].manifests)


def the(name: str, kind: str) -> Data:
    """A run's one object of a kind."""
    (found,) = (manifest for manifest in run(name).manifests if manifest["kind"] == kind)
    return found


def pods_of(name: str) -> dict[str, list[Pod]]:
    """Role -> its pods, as the controller makes them."""
    made: dict[str, list[Pod]] = {}
    for pod in pods(run(name).manifests):
        made.setdefault(pod.role, []).append(pod)
    return made


def volume(pod: Pod, name: str) -> Data:
    """A volume of the pod by its name."""
    volumes: list[Data] = pod.spec["volumes"]
    (found,) = (volume for volume in volumes if volume["name"] == name)
    return found


def mount(pod: Pod, path: str) -> Data:
    """What the container mounts at a path."""
    mounts: list[Data] = pod.container["volumeMounts"]
    (found,) = (mount for mount in mounts if mount["mountPath"] == path)
    return found
