"""One run through the whole pipeline: resolve, lower, patch, hash, lower again, and ask every rule."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from trainwright.cluster import Cluster
from trainwright.findings import CompileError, Finding, Severity
from trainwright.identity import PLACEHOLDER, identity_hash
from trainwright.locate import Locator
from trainwright.manifest.why import Provenance, split
from trainwright.plan import Plan, Resolution, resolve
from trainwright.rules import Context, check_manifests, check_plan, check_run
from trainwright.run import Run
from trainwright.target import TARGETS, Target
from trainwright.waivers import check_waivers, unused_waivers, waive

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class CompiledRun:
    """A run that compiled: its plan, its objects with their provenance, and what a reviewer should know."""

    run: Run
    cluster: Cluster
    resolution: Resolution
    manifests: tuple[Manifest, ...]
    provenance: tuple[Provenance, ...]
    """One map for each manifest."""
    overridden: tuple[str, ...]
    findings: tuple[Finding, ...]
    """Warnings and notes that stand, waived ones marked; never errors."""

    @property
    def plan(self) -> Plan:
        return self.resolution.plan

    @property
    def target(self) -> Target:
        return self.resolution.target

    @property
    def identity(self) -> str:
        """The hash in the name."""
        return self.plan.name.rpartition("-")[2]


def compile_run(run: Run, cluster: Cluster, locate: Locator | None = None, today: date | None = None) -> CompiledRun:
    """Compile one run for its cluster.

    Raises:
        CompileError: with every finding of the first stage that has an error.
    """
    context = Context(run=run, cluster=cluster, locate=locate or Locator(), today=today or datetime.now(UTC).date())
    findings = _stand(context, [*check_waivers(run, context.today, context.locate), *check_run(context)])
    target = TARGETS[run.target or cluster.default_target]
    draft = _lower(context, target, f"{run.run}-{PLACEHOLDER}")
    name = f"{run.run}-{identity_hash(draft.manifests, target.mutable, run.attempt)}"
    final = _lower(context, target, name)
    findings += _stand(context, [*final.findings, *check_plan(context, final.resolution)])
    findings += _stand(context, check_manifests(context, final.resolution, final.manifests))
    findings += unused_waivers(findings, run, context.locate)
    return CompiledRun(
        run=run,
        cluster=cluster,
        resolution=final.resolution,
        manifests=tuple(final.manifests),
        provenance=tuple(final.provenance),
        overridden=final.overridden,
        findings=tuple(findings),
    )


@dataclass(frozen=True, slots=True)
class _Lowered:
    resolution: Resolution
    manifests: list[Manifest]
    provenance: list[Provenance]
    overridden: tuple[str, ...]
    findings: tuple[Finding, ...]


def _lower(context: Context, target: Target, name: str) -> _Lowered:
    resolution = resolve(context.run, context.cluster, target, name, context.locate)
    parts = [split(tree) for tree in target.lower(resolution)]
    manifests, provenance = [plain for plain, _ in parts], [answers for _, answers in parts]
    if not context.run.overrides.pod and not context.run.overrides.objects:
        return _Lowered(resolution, manifests, provenance, (), ())
    from trainwright.overrides.apply import apply_overrides  # few runs have any, and it takes its time to load

    patched = apply_overrides(resolution, manifests, provenance, context.locate)
    return _Lowered(resolution, patched.manifests, provenance, patched.touched, patched.findings)


def _stand(context: Context, findings: list[Finding]) -> list[Finding]:
    """Findings after the run's waivers; raises where an error is left."""
    standing = waive(findings, context.run, context.today)
    if any(finding.severity is Severity.ERROR for finding in standing):
        raise CompileError(standing)
    return standing
