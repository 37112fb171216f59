"""The accounts of all objects in the files of an import, each with the run that it became part of."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from trainwright.findings import Finding
from trainwright.findings.locate import Locator, at, escape
from trainwright.importing.accounting.account import Account, account, unaccounted
from trainwright.importing.accounting.matching import called, compiled_objects, foundation_objects, references
from trainwright.importing.bring import Brought, Imported
from trainwright.importing.read import Source
from trainwright.reading.document import parse_yaml
from trainwright.starter.files import MODELINE
from trainwright.validate.check import check_manifests
from trainwright.validate.core_schemas import known_version
from trainwright.validate.crd import Catalogue
from trainwright.validate.manifests import Manifest, manifests_in


class Told(NamedTuple):
    """One object of the files."""

    account: Account
    run: str | None
    """The run that it became part of; None where no run compiles of it."""
    findings: tuple[Finding, ...]
    """What it has as it stands."""


def accounts_of(brought: Brought, sources: Sequence[Source], catalogue: Catalogue) -> list[Told]:
    """Each object as the files have it, in their order: with what a server wrote, and with what wraps it.

    Args:
        brought: the import.
        sources: its files.
        catalogue: CustomResourceDefinitions, for what the objects have as they stand.
    """
    objects = [one for source in sources for one in manifests_in(source.text, source.name)[0] if _is_object(one)]
    runs: dict[int, list[Imported]] = {}
    for run in brought.runs:
        runs.setdefault(next(number for number, one in enumerate(objects) if _holds(one, run.original[0])), []).append(run)
    failed = {number for number, one in enumerate(objects) if any(_holds(one, each.manifest) for each in brought.failed)}
    parts: dict[int, list[int]] = {}
    for number in range(len(objects)):
        parts.setdefault(number if number in failed else _owner(objects, number, runs), []).append(number)
    told: dict[int, Told] = {}
    findings = _findings(objects, catalogue)
    for owner, numbers in parts.items():
        original, mine = [objects[number].data for number in numbers], runs.get(owner, [])
        unknown = [_unknown(objects[number], findings[number]) for number in numbers]
        found = _accounts(original, mine, unknown) if mine else [unaccounted(one) for one in original]
        name = ", ".join(run.name for run in mine) or None
        told.update((number, Told(one, name, findings[number])) for number, one in zip(numbers, found, strict=True))
    return [told[number] for number in sorted(told)]


def _is_object(manifest: Manifest) -> bool:
    return all(isinstance(manifest.data.get(field), str) for field in ("apiVersion", "kind"))


def _holds(manifest: Manifest, part: Manifest) -> bool:
    """Whether an object is the other one, or wraps it."""
    same = manifest.document.where("") == part.document.where("")
    return same and f"{part.pointer}/".startswith(f"{manifest.pointer}/")


def _owner(objects: Sequence[Manifest], number: int, runs: dict[int, list[Imported]]) -> int:
    """The object of a run to which another one belongs: the first that refers to it, else the first of all."""
    if number in runs or not runs:
        return number
    key = called(objects[number].data)
    asking = (owner for owner in runs if key in references(objects[owner].data))
    return next(asking, next(iter(runs)))


def _unknown(manifest: Manifest, findings: Sequence[Finding]) -> list[str]:
    """Pointers of the fields that its kind does not have, beside others that it has."""
    found = [one.where.pointer.removeprefix(manifest.pointer) for one in findings if one.code == "TW703"]
    return [pointer for pointer in found if _has_known(manifest.data, pointer, found)]


def _has_known(data: object, pointer: str, unknown: Sequence[str]) -> bool:
    """Whether one of the fields beside it is known: of a value of another type none is."""
    above = pointer.rpartition("/")[0]
    holder = at(data, above)
    return isinstance(holder, dict) and any(f"{above}/{escape(str(key))}" not in unknown for key in holder)


def _accounts(original: Sequence[dict[str, object]], runs: Sequence[Imported], unknown: Sequence[list[str]]) -> list[Account]:
    """Several runs only where one object wraps them."""
    compiled = [one for run in runs for one in compiled_objects(run.compiled)]
    beside = foundation_objects(runs[0].compiled.cluster, runs[0].compiled.run.namespace)
    file = f"charts/runs/{runs[0].name}.yaml"
    locate = Locator(file, parse_yaml(MODELINE.format("run") + runs[0].text, file).positions)
    return account(original, compiled, beside, locate, unknown)


def _findings(objects: Sequence[Manifest], catalogue: Catalogue) -> list[tuple[Finding, ...]]:
    """Of each object, what the API server or an operator would say of it."""
    report = check_manifests([(one, known_version(None)) for one in objects], catalogue)
    starts: dict[str | None, list[tuple[int, int]]] = {}
    for number, one in enumerate(objects):
        where = one.where("")
        starts.setdefault(where.file, []).append((where.line or 0, number))
    found: list[list[Finding]] = [[] for _ in objects]
    for finding in report.findings:
        begun = starts.get(finding.where.file, [])
        at = bisect_right(begun, (finding.where.line or 0, len(objects))) - 1
        if begun:
            found[begun[max(at, 0)][1]].append(finding)
    return [tuple(each) for each in found]
