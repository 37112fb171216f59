"""What runs fetch into the same folder: they must agree on how."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainwright.findings.codes import found
from trainwright.findings.finding import Finding
from trainwright.findings.locate import escape
from trainwright.manifest.data.fetching import job_name

if TYPE_CHECKING:
    from trainwright.project.build import BuiltRun


def fetched_twice(runs: Sequence[BuiltRun]) -> list[Finding]:
    """Two Jobs that fetch the same data differ in tool, credentials or size, and would copy it side by side."""
    seen: dict[tuple[str, str, str, str], tuple[str, str]] = {}
    findings = []
    for run in runs:
        resolution = run.compiled.resolution
        for data in resolution.plan.data:
            place = (resolution.plan.cluster, resolution.plan.namespace, data.claim, data.folder)
            own = (job_name(resolution, data), f"{run.file.run.run}, {data.path}")
            other = seen.setdefault(place, own)
            if other[0] != own[0]:
                findings.append(
                    found(
                        "TW242",
                        run.output.locator.run(f"/prepare/{escape(data.path)}"),
                        f"run {other[1]} fetches the same data into the same folder in another way",
                        "write image, credentials, service_account, region, cpu, memory and image_pull_secrets as it does",
                    )
                )
    return findings
