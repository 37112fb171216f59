"""From plain data to a compiled run, as a project does it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from typing import Any

from trainwright.cluster import Cluster
from trainwright.compile import CompiledRun, compile_run
from trainwright.findings import CompileError, Severity
from trainwright.findings.locate import Locator
from trainwright.reading import validate, validate_data
from trainwright.reading.document import parse_yaml
from trainwright.rules.cluster.profile import check_profile
from trainwright.run import Run

Data = dict[str, Any]

TODAY = date(2030, 1, 1)


def compile_data(cluster: Data, run: Data) -> CompiledRun:
    """Data that a Python program holds: no file, no lines.

    Raises:
        CompileError: as any reader of runs and profiles.
    """
    return _compile(validate_data(Cluster, cluster, None, {}), lambda: validate_data(Run, run, None, {}), Locator())


def compile_text(cluster: str, run: str) -> CompiledRun:
    """YAML as it stands in two files.

    Raises:
        CompileError: as any reader of runs and profiles.
    """
    profile, asked = parse_yaml(cluster, "cluster.yaml"), parse_yaml(run, "run.yaml")
    return _compile(validate(Cluster, profile), lambda: validate(Run, asked), Locator(
        run_file=asked.file, run_positions=asked.positions, cluster_file=profile.file, cluster_positions=profile.positions))


def _compile(profile: Cluster, read: Callable[[], Run], locate: Locator) -> CompiledRun:
    findings = check_profile(profile, locate)
    if any(finding.severity is Severity.ERROR for finding in findings):
        raise CompileError(findings)
    return compile_run(read(), profile, locate, TODAY)


def written(data: Data) -> str:
    """Data as a YAML file: JSON, of which YAML 1.2 is a superset."""
    return json.dumps(data, indent=1, ensure_ascii=False)
