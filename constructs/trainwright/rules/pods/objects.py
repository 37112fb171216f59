"""Rules on names, labels and the finished objects."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from trainwright.findings import Finding, Severity, Where
from trainwright.findings.codes import CODES, found
from trainwright.findings.context import Context
from trainwright.findings.locate import Locator, escape
from trainwright.manifest.labels import in_foundation, is_the_plans
from trainwright.manifest.plain import problems
from trainwright.manifest.pods import images_outside
from trainwright.manifest.provenance import Provenance, origin
from trainwright.operators import TARGETS
from trainwright.operators.base import RunPod
from trainwright.plan import Resolution
from trainwright.plan.stated import all_words
from trainwright.rules.pods.kubernetes import written_parts
from trainwright.units import counted

if TYPE_CHECKING:
    from trainwright.objects.problem import Problem

Manifest = dict[str, Any]


def schema_problems(manifests: Sequence[Manifest], version: str) -> Iterator[tuple[int, Problem]]:
    """The number of the manifest with each problem; unknown fields are problems. Loads the schemas on first use.

    Of a kind that is not Kubernetes' own the metadata is validated, and every template of a pod or Job in it.
    """
    from trainwright.validate.core import core_problems, is_core, metadata_structure, template_structure
    from trainwright.validate.core_schemas import known_version

    known = known_version(version)
    for number, manifest in enumerate(manifests):
        if is_core(str(manifest["apiVersion"])):
            yield from ((number, problem) for problem in core_problems(manifest, known))
            continue
        for problem in (*metadata_structure(manifest["metadata"], known), *template_structure(manifest, known)):
            yield number, problem


def _of_kind(kind: str, problem: Problem) -> str:
    """A problem as one of an object; most messages begin with the path."""
    place = f"{kind}: " if problem.message.startswith("/") else f"{kind}{problem.pointer}: "
    return f"{place}{problem.message}"


LONGEST_LABEL = 63


def labels(context: Context) -> Iterator[Finding]:
    """Labels and annotations that the plan or a controller needs for itself."""
    for words, source in all_words(context.run):
        for field in ("labels", "pod_labels", "annotations", "pod_annotations"):
            for key in (key for key, value in getattr(words, field, {}).items() if _is_reserved(key, value)):
                message = f"{field.removeprefix('pod_').removesuffix('s')} {key} belongs to the plan or to a controller"
                where = context.locate.at(f"{source}/{field}/{escape(key)}")
                yield found("TW410", where, message, "use a prefix of your own, such as example.com/")


def _is_reserved(label: str, value: str) -> bool:
    """Whether the plan, Argo CD or the controller of any target sets a label."""
    keys = [key for target in TARGETS.values() for key in target.reserved_labels]
    prefixes = ("argocd.argoproj.io/", *(key for key in keys if key.endswith("/")))
    return label in keys or label.startswith(prefixes) or is_the_plans(label, value)


def generated_names(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Names that the controller derives must be DNS labels; the API server finds out only when the pods are made."""
    longest, own = TARGETS[resolution.plan.target].longest_name, resolution.plan.name
    if len(own) > longest:
        message = f"{resolution.plan.target_title} takes names of at most {longest} characters, and {own} has {len(own)}"
        fix = f"shorten the run's name by {counted(len(own) - longest, 'character')}"
        yield found("TW402", context.locate.run("/run"), message, fix)
    for pattern in resolution.binding.generated_names:
        name = pattern.format(name=own)
        if len(name) > LONGEST_LABEL:
            roles = [role.name for role in resolution.binding.roles if role.further and f"-{role.name}-" in pattern]
            long = max((*roles, context.run.run), key=len)
            whose, at = (f"name of role {long}", f"/roles/{escape(long)}") if long in roles else ("run's name", "/run")
            message = f"{resolution.plan.target_title} derives the name {name}, which has {len(name)} characters"
            fix = f"shorten the {whose} by {counted(len(name) - LONGEST_LABEL, 'character')}"
            yield found("TW402", context.locate.run(at), message, fix)


def values_are_plain(manifests: Sequence[Manifest], provenance: Sequence[Provenance], locate: Locator) -> Iterator[Finding]:
    """Values that JSON, YAML and every reader of YAML see alike."""
    for manifest, answers in zip(manifests, provenance, strict=True):
        for pointer, reason in problems(manifest):
            where = locate.source(*origin(answers, pointer)) or locate.run()
            fix = "write it differently, or keep it in a file of the image"
            yield found("TW107", where, f"{manifest['kind']}{pointer} {reason}", fix)


def overrides_are_valid(
    context: Context, manifests: Sequence[Manifest], provenance: Sequence[Provenance]
) -> Iterator[Finding]:
    """Patched objects must pass the API's own schema; what the compiler wrote alone is proven by its tests."""
    overrides = context.run.overrides
    if overrides.pod or overrides.objects:
        for number, problem in schema_problems(manifests, context.cluster.kubernetes):
            yield _invalid(context, str(manifests[number]["kind"]), problem, provenance[number])


def _invalid(context: Context, kind: str, problem: Problem, answers: Provenance) -> Finding:
    """A problem of a patched object, on the line of the override that made it, where one is known."""
    source, below = origin(answers, problem.pointer)
    where = context.locate.source(source, below) if _IN_KUBERNETES_WORDS.match(source) else None
    return found("TW603", where or _patch_of(context, kind), _of_kind(kind, problem), problem.fix)


_IN_KUBERNETES_WORDS = re.compile(r"run:/(overrides|containers|(roles/[^/]+/)?mounts)/|cluster:/node_pools/")
"""Sources of what may be written as Kubernetes writes it."""


def is_accepted(
    context: Context, whole: Sequence[Manifest], manifests: Sequence[Manifest], provenance: Sequence[Provenance]
) -> Iterator[Finding]:
    """Patched objects, and those that hold a container or a volume as Kubernetes writes it, must pass what `trainwright validate`
    knows without CRDs, operators' webhooks too.

    ``whole`` are the objects that fit their schemas, as :func:`overrides_are_valid` found. Most are written just as they are,
    and are not held against their schemas again: that is most of what validating costs. Which fields an operator's kind has its
    target knows, for the release that the profile names.
    """
    overrides = context.run.overrides
    if overrides.pod or overrides.objects or any(written_parts(context)):
        from trainwright.validate.check import beyond_schema, object_problems
        from trainwright.validate.core import is_core
        from trainwright.validate.core_schemas import known_version
        from trainwright.validate.crd import Catalogue

        known = known_version(context.cluster.kubernetes)
        for manifest, answers in zip(manifests, provenance, strict=True):
            kind = str(manifest["kind"])
            core = is_core(str(manifest["apiVersion"]))
            fits = core and any(manifest is one for one in whole)
            for problem in beyond_schema(manifest) if fits else object_problems(manifest, Catalogue(), known)[0]:
                if CODES[problem.code].severity is Severity.ERROR and (core or problem.code != "TW703"):
                    yield _invalid(context, kind, problem, answers)


def pods_are_counted(context: Context, pods: Sequence[RunPod]) -> Iterator[Finding]:
    """Pods besides those of the plan: nobody reviewed them, and no rule, gang or queue counts them."""
    for pod in pods:
        if pod.role is None and not pod.is_the_runtimes:
            message = f"{pod.kind.kind}{pod.found.pointer.removesuffix('/spec')} makes pods that the plan does not count"
            fix = "remove it, and change topology.nodes; or write what they do as a run of its own"
            yield found("TW609", pod.where(context.locate, ""), message, fix)


def images_are_counted(context: Context, manifests: Sequence[Manifest], provenance: Sequence[Provenance]) -> Iterator[Finding]:
    """The same of images outside of pods, of which a controller makes containers."""
    for manifest, answers in zip(manifests, provenance, strict=True):
        for pointer, reference in () if in_foundation(manifest) else images_outside(manifest):
            message = f"{manifest['kind']}{pointer} starts {reference} in a container that the plan does not count"
            fix = "remove it; write a sidecar under containers of the run"
            where = context.locate.source(*origin(answers, pointer)) or context.locate.run("/overrides")
            yield found("TW609", where, message, fix)


def _patch_of(context: Context, kind: str) -> Where:
    """The override of an object of that kind."""
    numbers = (number for number, override in enumerate(context.run.overrides.objects) if override.kind == kind)
    number = next(numbers, None)
    return context.locate.run("/overrides" if number is None else f"/overrides/objects/{number}/patch")


RUN = (labels,)
PLAN = (generated_names,)
