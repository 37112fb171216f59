"""One run and one cluster profile, changed in a few keys and compiled without files."""

from __future__ import annotations

from datetime import date
from typing import Any

from tests.compiler.findings.page import BASE, overlay

from trainwright.cluster import Cluster
from trainwright.compile import CompiledRun, compile_run
from trainwright.findings import CompileError, Finding
from trainwright.reading.document import read_yaml
from trainwright.run import Run

Data = dict[str, Any]
TODAY = date(2026, 7, 1)

RUN = read_yaml(BASE / "charts" / "runs" / "example.yaml").data
CLUSTER = read_yaml(BASE / "charts" / "clusters" / "lab.yaml").data

EVERY_TARGET = Cluster.model_validate(overlay(CLUSTER, {"scheduling": {"gang": "volcano", "version": "1.15"}}))
"""A cluster on which no target misses its scheduler."""


def compiled(run: Data | None = None, cluster: Data | None = None, today: date = TODAY) -> CompiledRun:
    """The example with changes (mappings merge, null removes)."""
    return compile_run(
        Run.model_validate(overlay(RUN, run or {})), Cluster.model_validate(overlay(CLUSTER, cluster or {})), today=today
    )


def findings(run: Data | None = None, cluster: Data | None = None, today: date = TODAY) -> list[Finding]:
    """What the compiler has to say, whether it compiles or not; but for the note that a trainer is in development (TW212)."""
    try:
        said = compiled(run, cluster, today).findings
    except CompileError as error:
        said = error.findings
    return [finding for finding in said if finding.code != "TW212"]


def codes(run: Data | None = None, cluster: Data | None = None, today: date = TODAY) -> list[str]:
    return [finding.code for finding in findings(run, cluster, today)]


def message(run: Data | None = None, cluster: Data | None = None) -> str:
    """Place, message and fix of the one finding there is."""
    (finding,) = findings(run, cluster)
    return f"{finding.where}: {finding.message}; {finding.fix}"


def command(*words: str) -> Data:
    """A run whose work is an opaque command."""
    nothing: Data = dict.fromkeys(("batch", "learning_rate"))
    return {"workload": {"kind": "command", "command": list(words)}, **nothing}


def script(*words: str) -> Data:
    """A run whose work is a program under the supervisor."""
    return {"workload": {"kind": "script", "command": list(words)}, "batch": None, "learning_rate": None}


def pod(patch: Data) -> Data:
    """A run with an override of its pods."""
    return {"overrides": {"pod": {"node": patch}}}


def patched(kind: str, patch: Data) -> Data:
    """A run with an override of one object."""
    return {"overrides": {"objects": [{"target": "indexed-job", "kind": kind, "patch": patch}]}}
