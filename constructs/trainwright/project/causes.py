"""Why runs would restart that nobody edited: once for each cause, with what it changes and the runs that it restarts."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from importlib.metadata import version
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

from trainwright.findings import Finding, Where
from trainwright.findings.codes import found
from trainwright.findings.locate import escape, pointer_to, tokens
from trainwright.manifest.kinds import GroupKind
from trainwright.model import Fact
from trainwright.project.hold import objects_in
from trainwright.report.facts import profile_facts

if TYPE_CHECKING:
    from trainwright.project.build import BuiltRun
    from trainwright.project.load import Project
    from trainwright.project.record import Records

MOST_NAMED = 10
"""Runs, or values of a profile, that a message names; of the others it says how many there are."""

Change = tuple[str, Fact | None, Fact | None]
"""Path in a profile or in a run, and what stood there and stands there now; None for nothing."""


class Cause(NamedTuple):
    """What changed besides the runs that it restarts."""

    cluster: str
    """Whose profile, or whose profile has no record; empty where that did not change."""
    profile: tuple[Change, ...]
    defaults: tuple[Change, ...]
    release: str | None
    """Of Trainwright that wrote the runs."""

_PARTS = (
    (r"/resources/", "pod resources"),
    (r"/(nodeSelector|tolerations|affinity|topologySpreadConstraints|schedulerName|priorityClassName)\b", "placement"),
    (r"/image$", "the image"),
    (r"/env/", "the environment"),
    (r"/(volumes|volumeMounts)/", "volumes"),
    (r"/(securityContext|serviceAccountName|hostNetwork)\b", "security"),
    (r"/terminationGracePeriodSeconds$", "the grace period"),
    (r"^ConfigMap/data/", "the run's files"),
    (r"[pP]od[^/]*/.*/(command|args)/", "commands"),
    (r"/(replicas|parallelism|completions|numNodes|minAvailable|minMember)$", "the number of pods"),
)
"""Pointer into a kind of object -> what people call it; the first that fits."""


def restarts(
    project: Project, moved: Mapping[str, BuiltRun], records: Records, accepted: Collection[str]
) -> Iterator[tuple[Finding, list[str]]]:
    """One finding for each cause, with the runs that it is about.

    Args:
        project: where ``dist/`` has these runs as they are.
        moved: runs with another identity than their records say, though their own files are the same.
        accepted: those of them that may restart.
        records: what the last synth left.
    """
    causes: dict[Cause, list[str]] = defaultdict(list)
    for name, built in moved.items():
        if name in accepted:
            continue
        entry, cluster = records.runs[name], built.file.run.cluster
        before = records.clusters.get(cluster)
        profile = () if before is None else _relevant(built, "cluster", before.profile, profile_facts(built.cluster.cluster))
        defaults = _relevant(built, "run", entry.defaults or {}, built.file.defaults or {})
        release = entry.written_by.trainwright if entry.written_by else None
        causes[Cause(cluster if profile or before is None else "", profile, defaults, release)].append(name)
    for cause, names in causes.items():
        first = moved[names[0]]
        where, what = _said_of(cause, first)
        *others, last = _changed_parts(project, first, records.runs[names[0]].identity) or ["the objects"]
        parts = f"{', '.join(others)} and {last}" if others else last
        runs = _some(f"{name} ({records.runs[name].identity} → {moved[name].identity})" for name in names)
        count = "1 run, which" if len(names) == 1 else f"{len(names)} runs, which"
        fix = (f"undo it; or let the runs restart with `trainwright roll {' '.join(names)}`; or keep them as they are with "
               f"`trainwright hold {' '.join(names)}`")
        yield found("TW501", where, f"{what} changes {parts} of {count} would restart: {runs}", fix), names


def _said_of(cause: Cause, run: BuiltRun) -> tuple[Where, str]:
    """Where a cause is, and what it is."""
    locate, shown = run.file.locator(run.cluster), run.file.defaulted.file or DEFAULTS
    changes = [(f"profile {cause.cluster}", cause.profile)] if cause.profile else []
    changes += [(shown, cause.defaults)] if cause.defaults else []
    if changes:
        said = " and ".join(f"{what}: {_some(f'{path} {_said(old)} → {_said(new)}' for path, old, new in each)}"
                            for what, each in changes)
        pointer = pointer_to(changes[0][1][0][0].split("/"))
        if cause.profile:
            return locate.cluster(pointer), said
        where = locate.run(pointer)
        return where if where.file == shown else Where(shown), said
    installed = version("trainwright")
    where = locate.run("/run")
    if cause.release not in (None, installed):
        return where, f"trainwright {cause.release} → {installed}"
    if cause.cluster:
        return where, f"something else than the run's file, such as the profile {cause.cluster}, which has no record yet,"
    return where, "something else than the run's file and its profile, such as this build of Trainwright,"


DEFAULTS = "charts/defaults.yaml"
"""As shown to people, where the file is gone."""


def _said(value: Fact | None) -> str:
    return "(nothing)" if value is None else str(value)


def _relevant(run: BuiltRun, kind: str, before: Mapping[str, Fact], after: Mapping[str, Fact]) -> tuple[Change, ...]:
    """What changed of the profile or the defaults since the last synth: what the run's objects come from of it, or all where that
    is nothing. ``kind`` is what sources of it begin with, ``cluster`` or ``run``.
    """
    both = ((path, before.get(path), after.get(path)) for path in sorted(before.keys() | after.keys()))
    changes = tuple(change for change in both if change[1] != change[2])
    sources = {answer.source for answers in run.compiled.provenance() for answer in answers.values()} if changes else set()
    read = {"/".join(tokens(source.removeprefix(f"{kind}:"))) for source in sources if source.startswith(f"{kind}:/")}
    used = tuple(change for change in changes if any(_overlap(change[0], path) for path in read))
    return used or changes


def _overlap(one: str, other: str) -> bool:
    return one == other or one.startswith(f"{other}/") or other.startswith(f"{one}/")


def _changed_parts(project: Project, run: BuiltRun, identity: str) -> list[str]:
    """What people call the parts of the objects that differ from those in ``dist/``, the names apart."""
    path = project.dist / run.output.path
    if not path.is_file():
        return []
    text = path.read_text(encoding="utf-8").replace(identity, run.identity)
    before = {_key(one): one for one in objects_in(text, project.shown(path))}
    after = {_key(one): one for one in run.output.manifests}
    parts: dict[str, None] = {}
    for key in before.keys() | after.keys():
        for pointer in _differences(before.get(key), after.get(key), key.partition(" ")[0]):
            part = next((name for pattern, name in _PARTS if re.search(pattern, pointer)), None)
            parts.update({part: None} if part else {})
    return [name for _, name in _PARTS if name in parts]


def _key(manifest: Mapping[str, Any]) -> str:
    return f"{GroupKind.of(manifest).kind} {manifest['metadata']['name']}"


def _differences(before: Any, after: Any, pointer: str) -> Iterator[str]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in before.keys() | after.keys():
            yield from _differences(before.get(key), after.get(key), f"{pointer}/{escape(str(key))}")
    elif isinstance(before, list | tuple) and isinstance(after, list | tuple):
        for index, (one, other) in enumerate(zip_longest(before, after)):
            yield from _differences(one, other, f"{pointer}/{index}")
    elif before != after:
        yield pointer


def _some(texts: Iterable[str]) -> str:
    named = list(texts)
    more = len(named) - MOST_NAMED
    return ", ".join(named[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
