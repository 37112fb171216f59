"""One run through the whole pipeline: resolve, lower, patch, hash, lower again, and ask every rule."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

from trainwright.cluster import Cluster
from trainwright.findings import CompileError, Finding, Severity
from trainwright.findings.locate import Locator
from trainwright.findings.waivers import check_waivers, unused_waivers, waive
from trainwright.identity import PLACEHOLDER, identity_hash, is_hash
from trainwright.manifest import supporting
from trainwright.manifest.kinds import GroupKind, Reasons, reasons_by_kind
from trainwright.manifest.labels import in_foundation
from trainwright.manifest.provenance import Provenance, Traced, split
from trainwright.manifest.template.volumes import configuration
from trainwright.operators import TARGETS
from trainwright.operators.base import RunPod, Target, run_pods
from trainwright.plan import Plan, Resolution, resolve
from trainwright.rules import Context, check_manifests, check_plan, check_run
from trainwright.rules.pods.objects import is_accepted, values_are_plain
from trainwright.rules.pods.pod_security import level_of
from trainwright.run import Run

Manifest = dict[str, Any]


class CompiledRun(NamedTuple):
    """A run that compiled: its plan, its objects, and what a reviewer should know."""

    run: Run
    cluster: Cluster
    resolution: Resolution
    manifests: tuple[Manifest, ...]
    overridden: tuple[str, ...]
    security: str | None
    """Pod security level of the pods and why, where it is not `restricted`."""
    findings: tuple[Finding, ...]
    """Warnings and notes that stand, waived ones marked; never errors."""

    @property
    def plan(self) -> Plan:
        return self.resolution.plan

    def provenance(self) -> tuple[Provenance, ...]:
        """One map for each manifest: lowers once more, since only `explain` asks."""
        return tuple(_lower(self.resolution, Locator()).provenance)

    @property
    def shared(self) -> tuple[int, ...]:
        """Indexes of the objects that live in the foundation, since runs of one shape share them."""
        kind = self.target.shared
        return tuple(i for i, one in enumerate(self.manifests) if GroupKind.of(one) == kind or in_foundation(one))

    @property
    def target(self) -> Target:
        return TARGETS[self.plan.target]

    @property
    def reasons(self) -> dict[GroupKind, Reasons]:
        """Why the constants in each kind of object are as they are."""
        return reasons_by_kind((*supporting.KINDS, *self.target.kinds))

    @property
    def identity(self) -> str:
        """The hash in the name."""
        return self.plan.name.rpartition("-")[2]


class PlannedError(CompileError):
    """Of a run that was planned before the error was found: there is something besides the error to look at."""

    def __init__(self, findings: Sequence[Finding], plan: Plan) -> None:
        super().__init__(findings)
        self.plan = plan


def compile_run(
    run: Run, cluster: Cluster, locate: Locator | None = None, today: date | None = None, last: str | None = None
) -> CompiledRun:
    """Compile one run for its cluster.

    Args:
        run: what is asked.
        cluster: what there is.
        locate: where both are written, for findings.
        today: what waivers are compared with; by default the day in UTC.
        last: the identity that the same run had at the last synth; where it has it still, the run is lowered once.

    Raises:
        CompileError: with every finding of the first stage that has an error.
    """
    context = Context(run=run, cluster=cluster, locate=locate or Locator(), today=today or datetime.now(UTC).date())
    findings = _after_waivers(context, check_run(context))
    final = _lower_finally(context, last)
    pods = final.pods
    try:
        findings += _after_waivers(context, [*final.findings, *check_plan(context, final.resolution)])
        findings += _after_waivers(context, list(values_are_plain(final.manifests, final.provenance, context.locate)))
        findings += _after_waivers(context, check_manifests(context, final.resolution, final.whole, final.origins, pods))
        findings += _after_waivers(context, list(is_accepted(context, final.whole, final.manifests, final.provenance)))
        findings = _after_waivers(context, [*check_waivers(context), *findings])  # beside what one that expired covers no more
    except CompileError as error:
        raise PlannedError(error.findings, final.resolution.plan) from error
    findings += unused_waivers(findings, run, context.locate)
    return CompiledRun(
        run=run,
        cluster=cluster,
        resolution=final.resolution,
        manifests=tuple(final.manifests),
        overridden=final.overridden,
        security=_security(pods, cluster.kubernetes),
        findings=tuple(findings),
    )


class Lowered(NamedTuple):
    """Objects of a run, and where their values come from."""

    resolution: Resolution
    whole: list[Manifest]
    """With whole pods at the target's ``templates``."""
    origins: list[Provenance]
    """Of these."""
    manifests: list[Manifest]
    """As they are written."""
    provenance: list[Provenance]
    overridden: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def pods(self) -> list[RunPod]:
        """Those of its own objects, overrides included, with where their values come from."""
        return run_pods(TARGETS[self.resolution.plan.target], self.resolution, self.whole, self.origins)


def lower_run(run: Run, cluster: Cluster, name: str) -> Lowered:
    """The objects of a run under a name, without a question to any rule: of one that is in a cluster already.

    Raises:
        CompileError: where it cannot be resolved.
    """
    return _lower(resolve(run, cluster, TARGETS, name, Locator()), Locator())


def _lower_finally(context: Context, last: str | None) -> Lowered:
    """All objects, with their own hash in their names.

    Those of a run that has kept its identity are lowered once, with it. If the hash that follows is another one, they are lowered
    as those of a new run: with the placeholder first.
    """
    if last is not None and is_hash(last):
        lowered = _lower_with(context, last)
        if _hash(lowered) == last:
            return lowered
    return _lower_with(context, _hash(_lower_with(context, PLACEHOLDER)))


def _hash(lowered: Lowered) -> str:
    """The identity that objects should have."""
    run, target = lowered.resolution.run, TARGETS[lowered.resolution.plan.target]
    hashed = [one for one in lowered.manifests if one["metadata"]["name"] != run.run and not in_foundation(one)]
    mutable = {kind.key: kind.mutable for kind in (*supporting.KINDS, *target.kinds)}
    objects = [(one, mutable.get(GroupKind.of(one), ())) for one in hashed]
    return identity_hash(objects, run.attempt, run.queue, lowered.resolution.plan.name.rpartition("-")[2])


def _lower_with(context: Context, identity: str) -> Lowered:
    """All objects, with a hash in their names."""
    name = f"{context.run.run}-{identity}"
    return _lower(resolve(context.run, context.cluster, TARGETS, name, context.locate), context.locate)


def _lower(resolution: Resolution, locate: Locator) -> Lowered:
    """All objects, and where their values come from."""
    run, target = resolution.run, TARGETS[resolution.plan.target]
    trees = (*configuration(resolution), *target.lower(resolution), *supporting.supporting_objects(resolution))
    separated = [split(tree) for tree in trees]
    whole, provenance = [manifest for manifest, _ in separated], [answers for _, answers in separated]
    touched: tuple[tuple[str, str], ...] = ()
    findings: tuple[Finding, ...] = ()
    if run.overrides.pod or run.overrides.objects:
        from trainwright.overrides.apply import apply_overrides  # few runs have any, and it takes its time to load

        patched = apply_overrides(resolution, whole, provenance, locate)
        whole, touched, findings = patched.manifests, patched.touched, patched.findings
    finished = target.finish(resolution, list(zip(whole, provenance, strict=True)))
    manifests, answers = [manifest for manifest, _ in finished], [answer for _, answer in finished]
    return Lowered(resolution, whole, provenance, manifests, answers, _as_written(touched, finished), findings)


def _as_written(touched: tuple[tuple[str, str], ...], finished: list[Traced]) -> tuple[str, ...]:
    """Where overrides are in the finished objects, since a target may have moved what they touched; what a later one replaced,
    or one removed, is where it was.
    """
    places = {
        answer.source: f"{manifest['kind']}{pointer}" for manifest, answers in finished for pointer, answer in answers.items()
    }
    return tuple(places.get(source, place) for place, source in touched)


def _security(pods: Sequence[RunPod], kubernetes: str) -> str | None:
    """The weakest level of any pod, and all that is weaker than `restricted`; None for that."""
    levels = [level_of(pod.found.spec, kubernetes) for pod in pods]
    problems = dict.fromkeys(problem for _, found in levels for problem in found)
    weakest = next((level for level in ("privileged", "baseline") if level in [one for one, _ in levels]), None)
    return f"{weakest}: {', '.join(_by_container(problems))}" if weakest else None


def _by_container(problems: Iterable[str]) -> list[str]:
    """Each container that lacks something once, with all that it lacks."""
    lacks: dict[str, list[str]] = {}
    for problem in problems:
        owner, without, missing = problem.partition(" without ")
        lacks.setdefault(f"{owner}{without}", []).extend([missing] if without else [])
    return [f"{owner}{', '.join(missing)}" for owner, missing in lacks.items()]


def _after_waivers(context: Context, findings: list[Finding]) -> list[Finding]:
    """Findings after the run's waivers; raises where an error is left."""
    standing = waive(findings, context)
    if any(finding.severity is Severity.ERROR for finding in standing):
        raise CompileError(standing)
    return standing
