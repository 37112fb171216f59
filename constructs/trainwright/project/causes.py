"""Why runs would restart that nobody edited: once for each cause, with what it changes and the runs that it restarts."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, NamedTuple

from trainwright.findings import Finding, Where
from trainwright.findings.codes import found
from trainwright.findings.locate import pointer_to, tokens
from trainwright.manifest.provenance import origin
from trainwright.model import Fact
from trainwright.project.changes import changed_facts, differences, object_key
from trainwright.project.hold import objects_in
from trainwright.report.facts import profile_facts
from trainwright.units import some

if TYPE_CHECKING:
    from trainwright.project.built import BuiltRun
    from trainwright.project.load import Project
    from trainwright.project.record import ClusterRecord, Records, RunRecord

Change = tuple[str, Fact | None, Fact | None]
"""Path in a profile or in a run, and what stood there and stands there now; None for nothing."""


class Cause(NamedTuple):
    """What changed besides the runs that it restarts."""

    cluster: str
    """Whose profile, or whose profile has no record; empty where that did not change."""
    profile: tuple[Change, ...]
    defaults: tuple[Change, ...]
    module: str
    """Of runs in Python, whose own text is as it was: what it imports or reads is not. Empty where nothing says so."""
    release: str | None
    """Of Trainwright that wrote the runs, where it is another and may be a cause."""


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
        causes[_cause(project, built, records.runs[name], records.clusters.get(built.file.run.cluster))].append(name)
    for cause, names in causes.items():
        first = moved[names[0]]
        where, what = _said_of(cause, first, records.runs[names[0]])
        *others, last = _parts(_changed(project, first, records.runs[names[0]].identity)) or ["the objects"]
        parts = f"{', '.join(others)} and {last}" if others else last
        runs = some(f"{name} ({records.runs[name].identity} → {moved[name].identity})" for name in names)
        count = "1 run, which" if len(names) == 1 else f"{len(names)} runs, which"
        fix = (f"undo it; or let the runs restart with `trainwright roll {' '.join(names)}`; or keep them as they are with "
               f"`trainwright hold {' '.join(names)}`")
        yield found("TW501", where, f"{what} changes {parts} of {count} would restart: {runs}", fix), names


def _cause(project: Project, run: BuiltRun, entry: RunRecord, before: ClusterRecord | None) -> Cause:
    """What changed that the values which differ come from; where no value says it, all that changed."""
    sources = {source for _, source in _changed(project, run, entry.identity)}
    profile = () if before is None else _relevant(run, "cluster", before.profile, profile_facts(run.cluster.cluster), sources)
    defaults = _relevant(run, "run", entry.defaults or {}, run.file.defaults or {}, sources)
    read = {"cluster": profile, "run": defaults}
    left = {kind for kind, pointer in map(_place, sources) if not any(_overlap(one[0], pointer) for one in read.get(kind, ()))}
    known, in_python = bool(profile or defaults), run.file.name.endswith(".py")
    written = entry.written_by.trainwright if entry.written_by else None
    release = written if written != version("trainwright") and (not known or left) else None
    stated = "run" in left or (not (known or release) and bool(changed_facts(entry.facts, run.facts)))
    module = run.file.name if in_python and stated else ""
    return Cause(run.file.run.cluster if profile or before is None else "", profile, defaults, module, release)


def _said_of(cause: Cause, run: BuiltRun, entry: RunRecord) -> tuple[Where, str]:
    """Where a cause is, and what it is."""
    locate, shown = run.file.locator(run.cluster), run.file.defaulted.file or DEFAULTS
    changes = [(f"profile {cause.cluster}", cause.profile)] if cause.profile else []
    changes += [(shown, cause.defaults)] if cause.defaults else []
    said = [f"{what}: {some(f'{path} {_said(old)} → {_said(new)}' for path, old, new in each)}" for what, each in changes]
    if cause.module:
        values = changed_facts(entry.facts, run.facts)
        said.append(f"a file that {cause.module} imports or reads{f' ({some(values)})' if values else ''}")
    if cause.release:
        said.append(f"trainwright {cause.release} → {version('trainwright')}")
    where = locate.run("/run")
    if changes:
        pointer = pointer_to(changes[0][1][0][0].split("/"))
        where = locate.cluster(pointer) if cause.profile else locate.run(pointer)
        where = where if cause.profile or where.file == shown else Where(shown)
    if said:
        return where, " and ".join(said)
    if cause.cluster:
        return where, f"something else than the run's file, such as the profile {cause.cluster}, which has no record yet,"
    return where, "something else than the run's file and its profile, such as this build of Trainwright,"


DEFAULTS = "charts/defaults.yaml"
"""As shown to people, where the file is gone."""


def _said(value: Fact | None) -> str:
    return "(nothing)" if value is None else str(value)


def _relevant(
    run: BuiltRun, kind: str, before: Mapping[str, Fact], after: Mapping[str, Fact], changed: Collection[str]
) -> tuple[Change, ...]:
    """What changed of the profile or the defaults since the last synth: what the values in ``dist/`` that changed come from; or
    what any value comes from, where no changed one says so; or all. ``kind`` is what sources of it begin with, ``cluster`` or
    ``run``.
    """
    both = ((path, before.get(path), after.get(path)) for path in sorted(before.keys() | after.keys()))
    changes = tuple(change for change in both if change[1] != change[2])
    every = {answer.source for answers in run.compiled.provenance() for answer in answers.values()} if changes else set()
    for sources in (changed, every):
        read = [pointer for name, pointer in map(_place, sources) if name == kind]
        if used := tuple(change for change in changes if any(_overlap(change[0], path) for path in read)):
            return used
    return changes


def _place(source: str) -> tuple[str, str]:
    """``cluster:/node_pools/a`` as ``cluster`` and ``node_pools/a``."""
    kind, _, pointer = source.partition(":")
    return kind, "/".join(tokens(pointer))


def _overlap(one: str, other: str) -> bool:
    return one == other or one.startswith(f"{other}/") or other.startswith(f"{one}/")


def _changed(project: Project, run: BuiltRun, identity: str) -> list[tuple[str, str]]:
    """The values that differ from those in ``dist/``, the names apart: the pointer of each below its kind, and its source."""
    path = project.dist / run.output.path
    if not path.is_file():
        return []
    text = path.read_text(encoding="utf-8").replace(identity, run.identity)
    before = {object_key(one): one for one in objects_in(text, project.shown(path))}
    after = {object_key(one): (one, answers) for one, answers in zip(run.output.manifests, run.output.provenance(), strict=True)}
    changed = []
    for key in before.keys() | after.keys():
        manifest, answers = after.get(key, (None, {}))
        kind = key.partition(" ")[0]
        changed += [(kind + pointer, origin(answers, pointer)[0]) for pointer, *_ in differences(before.get(key), manifest)]
    return changed


def _parts(changed: Iterable[tuple[str, str]]) -> list[str]:
    """What people call what changed."""
    parts = {next((name for pattern, name in _PARTS if re.search(pattern, pointer)), None) for pointer, _ in changed}
    return [name for _, name in _PARTS if name in parts]
