"""From files to runs and a profile: the whole way of an import."""

from __future__ import annotations

import copy
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from trainwright.cluster import Cluster
from trainwright.compile import CompiledRun
from trainwright.findings import CompileError, Finding, Severity, Where
from trainwright.findings.codes import found
from trainwright.findings.locate import at, dotted, tokens
from trainwright.importing.comments import remarks
from trainwright.importing.draft import Draft, draft, entry_of
from trainwright.importing.emitted import NONE
from trainwright.importing.fit import PROFILE, RUN, Compiler, Fitted, fit
from trainwright.importing.fitting import assign
from trainwright.importing.hosts import with_hosts
from trainwright.importing.propose import Proposal, propose
from trainwright.importing.read import Given
from trainwright.importing.rest import with_overrides
from trainwright.importing.words import Data
from trainwright.importing.write import profile_text, run_text
from trainwright.reading import validate_data
from trainwright.rules.secrets import secrets_in
from trainwright.validate.manifests import Manifest


class Dropped(NamedTuple):
    """A value that the original has, and the run may not."""

    where: Where
    """In the original."""
    pointer: str
    """Where the run would say it."""
    value: object
    why: str


@dataclass(frozen=True)
class Imported:
    """One object of the files, and its run."""

    original: tuple[Manifest, ...]
    """The object, without what the server wrote, and the others that its pods name."""
    name: str
    run: Data
    text: str
    """The run as its file, with the comments of the original."""
    compiled: CompiledRun
    dropped: Sequence[Dropped]
    """What the run may not say."""
    hidden: Sequence[tuple[str, Where]]
    """Variables whose values stand in plain text, and where."""


@dataclass(frozen=True)
class Failed:
    """An object that no run of it compiles of, and why."""

    manifest: Manifest
    findings: Sequence[Finding]


@dataclass(frozen=True)
class Brought:
    """What an import makes of its files."""

    runs: tuple[Imported, ...]
    failed: tuple[Failed, ...]
    profile: Data | None
    """The one that is drafted; None where the runs go to one that is there."""
    profile_text: str
    runtimes: Mapping[str, Data] = field(default_factory=dict)
    """File beside that profile -> the runtime that it holds."""
    notes: tuple[Finding, ...] = ()
    lacks: tuple[str, ...] = field(default=())
    """What the profile that is there lacks."""


def bring(
    given: Given,
    cluster: str,
    existing: Cluster | None = None,
    team: str | None = None,
    beneath: Callable[[Data], Data] = lambda data: data,
    taken: Sequence[str] = (),
) -> Brought:
    """Runs for the objects of files.

    Args:
        given: the objects.
        cluster: name of the profile.
        existing: the profile, where there is one; else it is drafted.
        team: who owns the runs, where their objects do not say so.
        beneath: adds the project's defaults to a run.
        taken: names of runs that are not this import's to give.
    """
    names, proposals, failed = set(taken), list[Proposal](), list[Failed]()
    installed = [one.manifest for one in existing.runtimes.values()] if existing else []
    for manifest in given.workloads:
        try:
            proposals.append(propose(manifest, given, names, team, cluster, installed))
            names.add(proposals[-1].name)
        except (AttributeError, KeyError, LookupError, TypeError, ValueError) as error:
            failed.append(Failed(manifest, [_unread(manifest, error)]))
    lacks: list[str] = []
    proposals, relaxed = _that_a_profile_can_hold(proposals, installed), set[str]()
    while True:
        tried = [replace(one, words=copy.deepcopy(one.words)) for one in proposals]
        made = draft(cluster, tried, given, relaxed) if existing is None else None
        lacks += assign(tried, existing) if existing else ()
        profile = existing or validate_data(Cluster, made.data if made and proposals else _EMPTY, PROFILE, {})
        results = [_fitted(one, Compiler(profile, beneath)) for one in tried]
        spaces = made.data.get("namespaces", {}) if made else {}
        strict = {proposal.namespace for proposal, one in zip(tried, results, strict=True) if isinstance(one, Failed)
                  and spaces.get(proposal.namespace, {}).get("pod_security") == "restricted"}  # fmt: skip
        relaxed |= strict
        if not strict and not any(isinstance(one, str) for one in results):
            break
        proposals = [one.without_runtime(result) if isinstance(result, str) else one
                     for one, result in zip(proposals, results, strict=True)]  # fmt: skip
    failed += [one for one in results if isinstance(one, Failed)]
    fitted = [(proposal, one) for proposal, one in zip(tried, results, strict=True) if isinstance(one, Fitted)]
    if made and fitted:
        profile, fitted = _as_strict_as_can_be(made, fitted, beneath, relaxed)
    runs = tuple(_imported(proposal, one, given) for proposal, one in fitted)
    notes = (*given.findings, *(finding for proposal, _ in fitted for finding in _merged(proposal)))
    if not (made and runs):
        return Brought(runs, tuple(failed), None, "", notes=notes, lacks=tuple(dict.fromkeys(lacks)))
    text = profile_text(made.written, {key: (f" {why}",) for key, why in made.guesses.items()})
    return Brought(runs, tuple(failed), made.data, text, made.runtimes, notes)


def _merged(proposal: Proposal) -> Iterator[Finding]:
    for pointer, what in proposal.said.merged.items():
        message = f"{what} numbered from 0 to {proposal.words.data['topology']['nodes'] - 1}"
        fix = "keep the original where its program, or a webhook of the cluster, tells slices or racks apart by them"
        yield found("TW717", proposal.manifest.where(pointer), message, fix)


def _that_a_profile_can_hold(proposals: Sequence[Proposal], installed: Sequence[Mapping[str, Any]]) -> list[Proposal]:
    """On no runtime that is none, nor on another one of a name that a profile has already, nor on one that would bring a secret
    in plain text into the project.
    """
    held: dict[str, Data] = {}
    able = list[Proposal]()
    for proposal in proposals:
        if proposal.runtime:
            name, entry = entry_of(proposal.runtime)
            if held.get(name, entry) != entry:
                proposal = proposal.without_runtime(f"a profile has each name once, and another runtime is called {name}")
            elif proposal.runtime not in installed and (pointer := next(secrets_in(entry["manifest"]), None)):
                place = dotted(tokens(pointer))
                proposal = proposal.without_runtime(f"{place} of runtime {name} holds what looks like a secret in plain text")
            else:
                try:
                    validate_data(Cluster, {**_EMPTY, "runtimes": {name: entry}}, PROFILE, {})
                    held[name] = entry
                except CompileError as error:
                    proposal = proposal.without_runtime(error.findings[0].message)
        able.append(proposal)
    return able


def _fitted(proposal: Proposal, compiler: Compiler) -> Fitted | Failed | str:
    """The run; or why it cannot refer to its runtime."""
    try:
        return with_overrides(proposal, with_hosts(proposal, fit(proposal, compiler), compiler), compiler)
    except CompileError as error:
        errors = [one for one in error.findings if one.severity is Severity.ERROR]
        if proposal.runtime:
            return errors[0].message
        return Failed(proposal.manifest, [_in_original(proposal, one) for one in errors])
    except (AttributeError, KeyError, LookupError, TypeError, ValueError) as error:  # of a shape that its schema refuses
        return Failed(proposal.manifest, [_unread(proposal.manifest, error)])


_EMPTY: Data = {"cluster": "empty", "kubernetes": "1.34", "node_pools": {"cpu": {"cpus": 1, "memory": "1Gi"}}}


def _unread(manifest: Manifest, error: Exception) -> Finding:
    said = str(error) if isinstance(error, LookupError | ValueError) and not isinstance(error, KeyError) else ""
    message = (
        f"{manifest.data.get('kind')} cannot be read as a run: {said or 'a field that it needs is missing, or of another type'}"
    )
    return found("TW709", manifest.where(""), message, "`trainwright validate` says what the API server would refuse in it")


def _in_original(proposal: Proposal, finding: Finding) -> Finding:
    """A finding of a run that nobody has written, at what the object says in its place."""
    return finding._replace(where=_where(proposal, finding.where.pointer if finding.where.file == RUN else ""))


def _where(proposal: Proposal, pointer: str) -> Where:
    sources = proposal.words.sources
    while pointer and pointer not in sources:
        below = next((source for here, source in sources.items() if here.startswith(f"{pointer}/")), None)
        if below:
            return proposal.manifest.where(below)
        pointer = pointer.rpartition("/")[0]
    return proposal.manifest.where(sources.get(pointer, ""))


def _as_strict_as_can_be(
    made: Draft, fitted: list[tuple[Proposal, Fitted]], beneath: Callable[[Data], Data], relaxed: Container[str]
) -> tuple[Cluster, list[tuple[Proposal, Fitted]]]:
    """A namespace is of level baseline where all that goes there may be, and of level restricted where it was relaxed for one
    object that did not fit without it either.
    """
    for name, space in made.data.get("namespaces", {}).items():
        if space["pod_security"] != "restricted":
            levels = ("restricted", "baseline") if name in relaxed else ("baseline",)
            here = [one.data for proposal, one in fitted if proposal.namespace == name]
            space["pod_security"] = next((level for level in levels if _fits(made, space, level, here, beneath)), "privileged")
    compiler = Compiler(validate_data(Cluster, made.data, PROFILE, {}), beneath)
    return compiler.cluster, [(proposal, Fitted(one.data, compiler(one.data), one.dropped)) for proposal, one in fitted]


def _fits(made: Draft, space: Data, level: str, runs: Sequence[Data], beneath: Callable[[Data], Data]) -> bool:
    """Whether runs compile in a namespace of the draft where it has this level."""
    space["pod_security"] = level
    compiler = Compiler(validate_data(Cluster, made.data, PROFILE, {}), beneath)
    try:
        for run in runs:
            compiler(run)
    except CompileError:
        return False
    return True


def _imported(proposal: Proposal, fitted: Fitted, given: Given) -> Imported:
    manifest = proposal.manifest
    text = given.texts.get(manifest.document.file, "")
    said: Mapping[str, tuple[str, ...]] = remarks(manifest, text, fitted.data, proposal.words.sources)
    came_back = proposal.aim is not None and proposal.aim.distance(fitted.compiled) == NONE
    lost = [] if came_back else fitted.dropped  # what the plan says again is not lost
    dropped = [Dropped(_where(proposal, pointer), pointer, value, why) for pointer, value, why in lost]
    if proposal.refused:
        there = "/spec/runtimeRef/name"
        dropped.insert(0, Dropped(manifest.where(there), "/runtime", at(manifest.data, there), proposal.refused))
    hidden = tuple((name, manifest.where(source)) for name, source in proposal.hidden)
    return Imported(
        (manifest, *given.around),
        proposal.name,
        fitted.data,
        run_text(fitted.data, said),
        fitted.compiled,
        tuple(dropped),
        hidden,
    )
