"""Patches the manifests of a run with its overrides, and refuses what the plan owns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from trainwright.findings import Finding
from trainwright.findings.codes import found
from trainwright.findings.locate import Locator, at, escape, tokens
from trainwright.manifest.kinds import GroupKind
from trainwright.manifest.labels import in_foundation
from trainwright.manifest.plain import problems
from trainwright.manifest.pods import pods_in
from trainwright.manifest.provenance import Answer, Provenance
from trainwright.model import closest
from trainwright.operators import TARGETS
from trainwright.overrides.merge import is_keyed, merge, merge_key, touched
from trainwright.overrides.owned import free_fields, owned_parts, owners_of, subtree
from trainwright.plan import Resolution

Manifest = dict[str, Any]
Place = tuple[str, str]
"""Pointer into an object, and pointer into the patch."""


@dataclass(frozen=True, slots=True)
class Patch:
    """One override: which object, where in it, and where it is in the run."""

    kind: str
    group: str | None
    """None where the run names the kind alone."""
    pointer: str
    value: dict[str, Any]
    source: str

    def is_for(self, manifest: Manifest) -> bool:
        """Whether it patches an object."""
        group, kind = GroupKind.of(manifest)
        return kind == self.kind and self.group in (None, group) and not in_foundation(manifest)


@dataclass(frozen=True, slots=True)
class Patched:
    """Manifests after the overrides, and what the overrides touched."""

    manifests: list[Manifest]
    touched: tuple[tuple[str, str], ...]
    """``Kind/pointer``, and the source that answers for it."""
    findings: tuple[Finding, ...]


def apply_overrides(
    resolution: Resolution, manifests: list[Manifest], provenance: list[Provenance], locate: Locator
) -> Patched:
    """Patch the manifests and note the run as the source of what changed. A patch with a finding is left out."""
    patches, findings = _patches(resolution, locate)
    patched, changed = list(manifests), []
    for patch in patches:
        index = next((i for i, one in enumerate(patched) if patch.is_for(one)), None)
        if index is None:
            kinds = ", ".join(dict.fromkeys(str(one["kind"]) for one in manifests if not in_foundation(one)))
            findings.append(
                found("TW602", locate.run(patch.source), f"the run has no object of kind {patch.kind}", f"use one of: {kinds}")
            )
            continue
        refused = list(_unwritable(patch, locate))
        places = [] if refused else list(touched(at(patched[index], patch.pointer), patch.value, patch.pointer))
        after = patched[index] if refused else _with(patched[index], tokens(patch.pointer), patch.value)
        refused = refused or _refused(resolution, _Step(patch, manifests[index], patched[index], after), places, locate)
        if refused:
            findings += refused
            continue
        patched[index] = after
        for pointer, there in places:
            source = f"run:{patch.source}{there}"
            _note(provenance[index], pointer, Answer(source, "an override of the run"))
            changed.append((f"{patch.kind}{pointer}", source))
    return Patched(patched, tuple(changed), tuple(findings))


def _patches(resolution: Resolution, locate: Locator) -> tuple[list[Patch], list[Finding]]:
    overrides, target, patches, findings = resolution.run.overrides, TARGETS[resolution.plan.target], [], []
    places = target.templates_of(resolution.binding)
    for role, value in overrides.pod.items():
        source = f"/overrides/pod/{escape(role)}"
        if role not in places:
            message = f"this {target.title} has no pod role {role}"
            findings.append(found("TW602", locate.run(source), message, f"use one of: {', '.join(places)}"))
            continue
        kind, pointer = places[role]
        patches.append(Patch(kind.kind, kind.group, f"{pointer}/spec", value, source))
    for number, override in enumerate(overrides.objects):
        source = f"/overrides/objects/{number}"
        if override.target == target.name:
            patches.append(Patch(override.kind, None, "", override.patch, f"{source}/patch"))
        else:
            message = f"the patch is for target {override.target}, the run goes to {target.name}"
            findings.append(found("TW602", locate.run(f"{source}/target"), message, f"remove it, or write one for {target.name}"))
    return patches, findings


def _unwritable(patch: Patch, locate: Locator) -> Iterator[Finding]:
    """Values that no manifest can hold, and items of one list that would be merged into each other."""
    for pointer, reason in problems(_without_null(patch.value)):
        yield found(
            "TW603",
            locate.run(patch.source + pointer),
            f"{pointer or 'the patch'} {reason}",
            "write a value that JSON and YAML can hold",
        )
    for pointer, field, items in _lists(patch.value, ""):
        if not is_keyed(items, field):
            continue
        names = [item[merge_key(field)] for item in items]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            yield found(
                "TW603",
                locate.run(patch.source + pointer),
                f"{pointer} names {twice} twice",
                "write one item with all its fields",
            )


def _without_null(node: Any) -> Any:
    """A patch without the keys that it removes; a null in a list stays, and is a problem."""
    if isinstance(node, dict):
        return {key: _without_null(value) for key, value in node.items() if value is not None}
    return [_without_null(item) for item in node] if isinstance(node, list) else node


def _lists(node: Any, pointer: str, field: str = "") -> Iterator[tuple[str, str, list[Any]]]:
    if isinstance(node, list):
        yield pointer, field, node
        for index, item in enumerate(node):
            yield from _lists(item, f"{pointer}/{index}")
    elif isinstance(node, dict):
        for key, value in node.items():
            yield from _lists(value, f"{pointer}/{escape(key)}", key)


@dataclass(frozen=True, slots=True)
class _Step:
    """One patch on one object."""

    patch: Patch
    compiled: Manifest
    """As the compiler wrote it."""
    before: Manifest
    """After the patches before this one."""
    after: Manifest


def _refused(resolution: Resolution, step: _Step, places: list[Place], locate: Locator) -> list[Finding]:
    """Findings on what the plan owns, where its own field says it better, and on patches that do nothing."""
    patch = step.patch
    if not places:
        message = f"the patch changes nothing: {_idle(patch)}"
        return [found("TW602", locate.run(patch.source), message, "remove it")]
    parts = [(re.compile(part.pattern), part) for part in owned_parts(resolution, step.compiled)]
    findings = []
    for pointer, there in places:
        where = locate.run(patch.source + there)
        reached = {*subtree(at(step.before, pointer), pointer), *subtree(at(step.after, pointer), pointer)}
        part = next((part for pattern, part in parts if any(pattern.fullmatch(place) for place in reached)), None)
        if part:
            findings.append(found("TW601", where, f"{patch.kind}{pointer} is {part.what}, which the plan decides", part.fix))
        else:
            findings += [found("TW601", where, message, fix) for message, fix in _variables(resolution, step, pointer)]
            findings += [found("TW603", where, message, fix) for message, fix in _unknown(resolution, step, pointer)]
    return findings


def _unknown(resolution: Resolution, step: _Step, pointer: str) -> Iterator[tuple[str, str]]:
    """A field that a kind of an operator does not have, as far as its target says. Pods have a schema of their own, and pods that
    are new are refused as such.
    """
    free, pods = free_fields(resolution, step.compiled), [pod.pointer.removesuffix("/spec") for pod in pods_in(step.after)]
    if free is None or any(_is_below(pod, pointer) or _is_below(pointer, pod) for pod in pods):
        return
    for leaf in subtree(at(step.after, pointer), pointer):
        known = leaf.startswith("/metadata/") or any(_is_below(leaf, field) or _is_below(field, leaf) for field in free)
        if not known and at(step.compiled, leaf) is None:
            near = closest(tokens(leaf)[-1], [tokens(field)[-1] for field in free])
            fix = f"did you mean {near}?" if near else f"remove it; besides the pods you can add: {', '.join(free) or 'nothing'}"
            yield f"{step.patch.kind}{leaf} is no field that this compiler knows of the kind", fix
            return


def _is_below(pointer: str, other: str) -> bool:
    return pointer == other or pointer.startswith(f"{other}/")


def _idle(patch: Patch) -> str:
    """Why a patch changes nothing, by its first leaf that is not the name of an item."""
    pointer, value = "", patch.value
    while isinstance(value, dict | list) and value:
        items = list(value.items() if isinstance(value, dict) else enumerate(value))
        key, value = next((item for item in items if item[0] != "name"), items[0])
        pointer += f"/{escape(str(key))}"
    if pointer == "":
        return "it is empty"
    return f"{patch.kind} has no {pointer} to remove" if value is None else f"{pointer} says what {patch.kind} says already"


def _variables(resolution: Resolution, step: _Step, pointer: str) -> Iterator[tuple[str, str]]:
    """Environment variables of the training container that a change touches and that are not free."""
    match = re.fullmatch(r"(.*/spec/containers/0/env)(?:/([0-9]+)(?:/.*)?)?", pointer)
    if not match:
        return
    lists = [at(manifest, match[1]) for manifest in (step.before, step.after)]
    entries = [entry for variables in lists if isinstance(variables, list) for entry in variables]
    if match[2]:
        entries = [at(manifest, f"{match[1]}/{match[2]}") for manifest in (step.before, step.after)]
    names = dict.fromkeys(str(entry["name"]) for entry in entries if isinstance(entry, dict) and "name" in entry)
    owners = owners_of(names, resolution)
    for name in names:
        if name in owners:
            yield owners[name], "remove it"
        elif name in resolution.run.env:
            yield f"{name} is set by the run itself", f"change env.{name}"


def _note(provenance: Provenance, pointer: str, answer: Answer) -> None:
    """The answer for a changed branch; those for what stood there are gone with it."""
    for stale in [known for known in provenance if known.startswith(f"{pointer}/")]:
        del provenance[stale]
    provenance[pointer] = answer


def _with(node: Any, path: list[str], value: dict[str, Any]) -> Any:
    """The object with the patch applied below a path, which may lead through lists."""
    if not path:
        return merge(node, value)
    first, *rest = path
    if isinstance(node, list):
        return [_with(item, rest, value) if str(index) == first else item for index, item in enumerate(node)]
    return {**node, first: _with(node[first], rest, value)}
