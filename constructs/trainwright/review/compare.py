"""Which runs change between two sides, and how: from their records, and from their objects where a record or a file differs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from trainwright.findings import CompileError
from trainwright.findings.codes import CODES
from trainwright.model import Fact
from trainwright.project.built import foundation_file, record_of, run_file
from trainwright.project.causes import DEFAULTS
from trainwright.project.record import (
    ARGO_CD,
    SUFFIX,
    ClusterRecord,
    FoundationRecord,
    RunRecord,
    as_written,
    digest,
    foundation_title,
)
from trainwright.project.start import CLAIM
from trainwright.reading import validate
from trainwright.reading.document import parse_yaml
from trainwright.report.facts import block, label, told, with_products
from trainwright.review.fields import FieldChange, Objects, field_changes, objects
from trainwright.review.model import Class, CodeChange, FactChange, Review, RunReview, SharedReview
from trainwright.review.outcome import BY_HAND, by_hand, class_of, outcome, training
from trainwright.review.side import READ, Side
from trainwright.units import counted

LOCK, DIST = (f"{folder}/" for folder in READ)
R = TypeVar("R", RunRecord, FoundationRecord, ClusterRecord)


def review(base: Side, head: Side) -> Review:
    """Everything that changes from ``base`` to ``head``. Reads only what differs."""
    return _Comparison(base, head).review()


@dataclass(frozen=True, slots=True)
class _Comparison:
    base: Side
    head: Side
    notes: list[str] = field(default_factory=list)
    records: dict[tuple[bool, str], Any] = field(default_factory=dict)
    """What has been read: whether of the head, and the name -> the record, or None."""

    def review(self) -> Review:
        changed = self._changed()
        for side in (self.base, self.head):  # one git for all of them
            side.read(changed)
        records = [path.removeprefix(LOCK).removesuffix(SUFFIX) for path in changed if path.startswith(LOCK)]
        files = {path: record_of(path.removeprefix(DIST)) for path in changed if path.startswith(DIST)}
        moved = [name for path, name in files.items() if name and (path in self.base.marks) != (path in self.head.marks)]
        runs = [self._run(name) for name in dict.fromkeys((*records, *moved)) if "/" not in name]
        profiles = dict(self._profile(name.partition("/")[2]) for name in records if name.startswith("clusters/"))
        keys = [name for name in dict.fromkeys((*records, *files.values())) if name and name.startswith("foundation/")]
        foundations = [self._foundation(name.removeprefix("foundation/")) for name in keys]
        known = [self._with_cause(run, profiles) for run in runs if run is not None]
        known = self._with_risk(known, [one for one in foundations if one.risk])
        shared = [*self._touched(profiles, known), *_of_releases(known), *foundations]
        shared = [one for one in shared if one.facts or one.fields or one.runs]
        shared += self._by_hand({*files, *self._files(records)}, {*keys, *(run.run for run in known)})
        said = [run for run in known if not _says_nothing(run)]
        order = list(Class)
        return Review(
            self.base.shown, self.head.shown, tuple(sorted(said, key=lambda run: (order.index(run.change), run.run))),
            tuple(shared), tuple(self.notes),
        )

    def _changed(self) -> list[str]:
        """Paths whose contents differ."""
        paths = sorted(self.base.marks.keys() | self.head.marks.keys())
        unlike = [path for path in paths if self.base.marks.get(path) != self.head.marks.get(path)]
        if {len(mark) for side in (self.base, self.head) for mark in side.marks.values()} == {40}:
            return unlike
        before, after = self.base.read(unlike), self.head.read(unlike)  # a repository that names contents in another way
        return [path for path in unlike if before.get(path) != after.get(path)]

    def _record(self, side: Side, model: type[R], name: str) -> R | None:
        """Read once, whoever asks for it: a run, its file and those who share with it all do."""
        key = side is self.head, name
        if key not in self.records:
            self.records[key] = self._validated(side, model, f"{LOCK}{name}{SUFFIX}")
        record: R | None = self.records[key]
        return record

    def _validated(self, side: Side, model: type[R], path: str) -> R | None:
        text = side.text(path)
        if text is None:
            return None
        try:
            return as_written(model, text) or validate(model, parse_yaml(text, path))
        except CompileError as error:
            self.notes.append(f"{path} of {side.shown} cannot be read, and counts as missing: {error.findings[0].message}")
            return None

    def _run(self, name: str) -> RunReview | None:
        last, now = self._in_dist(self.base, name), self._in_dist(self.head, name)
        before, after = _active(last), _active(now)
        if before is None and after is None:
            return None
        fields = self._fields(_dist(name, before), _dist(name, after), before, after)
        facts = fact_changes(last.facts, after.facts) if last and after and last.state != "done" else ()
        codes = tuple(_code_changes(before, after)) if before and after else ()
        words = outcome(name, last, now), training(last, now)
        if before and after and before.manifests == after.manifests and fields:
            words = by_hand(name, after), BY_HAND
        return RunReview(name, class_of(last, now), before, after, *words, facts, fields, codes=codes)

    def _in_dist(self, side: Side, name: str) -> RunRecord | None:
        """The record of a run; None where it is active and its file is gone, since Argo CD has no such run."""
        record = self._record(side, RunRecord, name)
        path = _dist(name, _active(record))
        return record if path is None or path in side.marks else None

    def _fields(
        self, old: str | None, new: str | None, before: RunRecord | None, after: RunRecord | None
    ) -> tuple[FieldChange, ...]:
        """Of a run that both sides have: all objects of one that comes or goes are no change to look at."""
        if old is None or new is None or before is None or after is None or self._same(old, new):
            return ()
        found = self._objects(self.base, old, before.identity), self._objects(self.head, new, after.identity)
        return () if None in found else tuple(field_changes(found[0] or {}, found[1] or {}))

    def _same(self, old: str, new: str) -> bool:
        """Whether a file has the contents that it had; a record that is the same does not show it."""
        return self.base.read([old]).get(old) == self.head.read([new]).get(new)

    def _both(self, path: str) -> tuple[Objects, Objects]:
        """The objects of a file whose names say no identity, on both sides."""
        return self._objects(self.base, path) or {}, self._objects(self.head, path) or {}

    def _objects(self, side: Side, path: str, identity: str = "") -> Objects | None:
        try:
            return objects(side.text(path), identity)
        except ValueError as error:
            self.notes.append(f"{path} of {side.shown}: {error}")
            return None

    def _profile(self, name: str) -> tuple[str, tuple[FactChange, ...]]:
        before, after = (self._record(side, ClusterRecord, f"clusters/{name}") for side in (self.base, self.head))
        both = before.profile if before else {}, after.profile if after else {}
        keys = [key for key in sorted(both[0].keys() | both[1].keys()) if both[0].get(key) != both[1].get(key)]
        return name, tuple(FactChange(key, key, both[0].get(key), both[1].get(key)) for key in keys)

    def _foundation(self, key: str) -> SharedReview:
        """A foundation that changes; what leaves it may take data along."""
        before, after = self._both(f"{DIST}{foundation_file(key)}")
        gone = [name for name in before.keys() - after.keys() if name[1] == "PersistentVolumeClaim"]
        risk = "; ".join(_risk(name[3], before[name]) for name in sorted(gone))
        touched = tuple(self._users(key, {name[3] for name in gone})) if gone else ()
        fields = tuple(field_changes(before, after))
        effect = TOLD if key.startswith(ARGO_CD) else SHARED
        return SharedReview(foundation_title(key), touched, (), fields, risk, effect)

    def _users(self, key: str, claims: Collection[Fact]) -> Iterator[str]:
        """Runs of the base that use claims of a namespace and are not done: one that is paused is to find its checkpoints."""
        paths = [path for path in sorted(self.base.marks) if path.startswith(LOCK)]
        self.base.read(paths)
        for name in (path.removeprefix(LOCK).removesuffix(SUFFIX) for path in paths):
            record = self._record(self.base, RunRecord, name) if "/" not in name else None
            if record is None or record.state == "done" or not (_dist(name, record) or "").startswith(f"{DIST}{key}/"):
                continue
            if any(fact in claims for fact_key, fact in record.facts.items() if fact_key.endswith(CLAIM)):
                yield name

    def _with_risk(self, runs: list[RunReview], foundations: list[SharedReview]) -> list[RunReview]:
        """The runs again, and those that only lose a claim."""
        known = {run.run: run for run in runs}
        for foundation in foundations:
            for name in foundation.runs:
                run = known.get(name)
                if run is None:
                    last, now = (self._record(side, RunRecord, name) for side in (self.base, self.head))
                    words = outcome(name, last, now), training(last, now)
                    run = RunReview(name, Class.COSMETIC, _active(last), _active(now), *words)
                known[name] = replace(run, change=Class.DATA_AT_RISK, outcome=f"{foundation.risk}; {run.outcome}")
        return list(known.values())

    def _with_cause(self, run: RunReview, profiles: Mapping[str, tuple[FactChange, ...]]) -> RunReview:
        """Says what else changed, where the run's own file is the same."""
        if not run.before or not run.after or run.before.file != run.after.file:
            return run
        cluster = str(run.after.facts.get("cluster", ""))
        releases = [one.written_by.trainwright if one.written_by else "" for one in (run.before, run.after)]
        causes = [f"profile {cluster}"] if profiles.get(cluster) else []
        causes += [text for text in [_of_defaults(run.before, run.after)] if text]
        if causes:
            return replace(run, cause=AND.join(causes))
        if releases[0] != releases[1]:
            return replace(run, cause=f"trainwright {releases[0]} -> {releases[1]}")
        if run.change is Class.HELD:
            return run
        if run.before.hold:
            return run if run.after.hold else replace(run, cause=f"the end of its hold ({run.before.hold.why})")
        return replace(run, cause="something else than its own file and its profile")

    def _touched(self, profiles: Mapping[str, tuple[FactChange, ...]], runs: list[RunReview]) -> Iterator[SharedReview]:
        for name, changes in profiles.items():
            title = f"profile {name}"
            touched = [run for run in runs if _begins(run.cause) == title]
            restarts = sum(run.change in (Class.REPLACED, Class.DATA_AT_RISK) for run in touched)
            does = f"This edit restarts {counted(restarts, 'run')}." if restarts else NO_RESTART
            effect = f"What is said of the cluster {name}. {does}"
            yield SharedReview(title, tuple(run.run for run in touched), changes, effect=effect)

    def _files(self, records: list[str]) -> Iterator[str]:
        """The files of ``dist/`` that some records are of."""
        for name in records:
            if name.startswith("foundation/"):
                yield f"{DIST}{foundation_file(name.removeprefix('foundation/'))}"
            elif "/" not in name:
                paths = (_dist(name, self._record(side, RunRecord, name)) for side in (self.base, self.head))
                yield from (path for path in paths if path)

    def _by_hand(self, paths: Iterable[str], reviewed: Collection[str]) -> Iterator[SharedReview]:
        """Files that are not what a record says of them, or were not; fields of what is reviewed stand there."""
        for path in sorted(paths):
            was, now = self._state(self.base, path), self._state(self.head, path)
            if not was and not now and self._says_too_little(path):
                now = BOTH_EDITED
            if not was and not now:
                continue
            name = record_of(path.removeprefix(DIST))
            ours = name is not None and NO_RECORD not in (was, now)
            runs = (name,) if name and ours and "/" not in name else ()
            fields = () if ours and name in reviewed else tuple(field_changes(*self._both(path)))
            what = now or f"put right: it was {was}"
            yield SharedReview(f"{path}, {what}", runs, (), fields, effect=EFFECTS.get(now, ""))

    def _state(self, side: Side, path: str) -> str:
        """What a file of ``dist/`` is against its record; nothing where it is what that says."""
        entry, data = self._entry(side, path), side.read([path]).get(path)
        if entry is None:
            return NO_RECORD if data is not None else ""
        if data is None:
            return REMOVED if entry.dist else ""
        return "" if digest(data) == entry.dist else EDITED

    def _says_too_little(self, path: str) -> bool:
        """Whether objects of a file change that are the same by its record."""
        before, after = self._entry(self.base, path), self._entry(self.head, path)
        if before is None or after is None or before.manifests != after.manifests or self._same(path, path):
            return False
        return any(field_changes(*self._both(path)))

    def _entry(self, side: Side, path: str) -> RunRecord | FoundationRecord | None:
        """The record that a file of ``dist/`` is there by."""
        name = record_of(path.removeprefix(DIST))
        if name is None:
            return None
        if "/" in name:
            return self._record(side, FoundationRecord, name)
        run = _active(self._record(side, RunRecord, name))
        return run if _dist(name, run) in (path, None) else None


def fact_changes(before: Mapping[str, Fact], after: Mapping[str, Fact]) -> tuple[FactChange, ...]:
    """What differs, in the order in which people read it. Where one side's facts are not known, nothing does."""
    if not before or not after:
        return ()
    old, new = with_products(told(before)), with_products(told(after))
    if _by_lineage(before) == _by_lineage(after):  # the path says no more than the lineage
        old, new = ({key: value for key, value in side.items() if key != "checkpoints"} for side in (old, new))
    keys = sorted((key for key in old.keys() | new.keys() if old.get(key) != new.get(key)), key=lambda key: (block(key), key))
    return tuple(FactChange(key, _label(key, {**old, **new}), old.get(key), new.get(key)) for key in keys)


def _label(key: str, facts: Mapping[str, Fact]) -> str:
    """With what a reader needs who sees this fact alone, and not among the others of a plan."""
    if key == "target":
        return "made as (kind of Kubernetes job)"
    if key == "learning_rate" and "learning_rate.base" in facts:
        return "learning rate, scaled to the batch"
    return "learning rate, as written" if key == "learning_rate.base" else label(key)


def _code_changes(before: RunRecord, after: RunRecord) -> Iterator[CodeChange]:
    """Findings that differ, where both records say which there were."""
    if before.findings is None or after.findings is None:
        return
    for code in sorted(before.findings.keys() | after.findings.keys()):
        old, new = before.findings.get(code), after.findings.get(code)
        if old != new:
            yield CodeChange(code, CODES[code].title if code in CODES else "of another release", old, new)


def _by_lineage(facts: Mapping[str, Fact]) -> str:
    return str(facts.get("checkpoints")).replace(str(facts.get("checkpoints.lineage")), "")


def _active(record: RunRecord | None) -> RunRecord | None:
    return record if record and record.state == "active" else None


def _dist(run: str, record: RunRecord | None) -> str | None:
    if record is None or not {"cluster", "namespace"} <= record.facts.keys():
        return None
    return f"{DIST}{run_file(record.facts['cluster'], record.facts['namespace'], run)}"


def _risk(claim: str, manifest: Mapping[str, object]) -> str:
    kept = "Prune=false" in str(manifest.get("metadata"))
    what = "the cluster keeps it and its data, but nothing here looks after it" if kept else "Argo CD deletes it, with its data"
    return f"the storage {claim} is no longer described here: {what}"


NO_RESTART = "By itself, this edit restarts no run."
SHARED = f"What the runs of a namespace share, such as its storage, queues and alerts. {NO_RESTART}"
TOLD = f"What Argo CD is told; it holds once somebody has applied it. {NO_RESTART}"
NO_RECORD, REMOVED, EDITED = "there without a record", "removed by hand", "edited by hand"
BOTH_EDITED = "edited by hand, together with its record"
"""What a file of ``dist/`` may be other than what its record says."""
EFFECTS = {
    NO_RECORD: "Argo CD applies what is in dist/, whoever wrote it.",
    REMOVED: "Its record still has it. Argo CD removes what was in it, but for what it is told to keep.",
    EDITED: "Its record says something else, and the next `trainwright synth` writes that.",
    BOTH_EDITED: "By its record no object in it changes: no `trainwright synth` writes such a pair.",
}
AND = " and "
"""Between two causes."""
MOST_DEFAULTS = 3
"""That a cause names; of the others it says how many there are."""


def _begins(cause: str | None) -> str:
    return (cause or "").partition(AND)[0]


def _of_defaults(before: RunRecord, after: RunRecord) -> str:
    """What changed of the defaults that a run has; nothing where they are the same."""
    held = before.hold.defaults if before.hold else None
    old, new = (before.defaults or {}) if held is None else held, after.defaults or {}
    keys = [key for key in sorted(old.keys() | new.keys()) if old.get(key) != new.get(key)]
    said = [f"{key} {old.get(key, '(nothing)')} -> {new.get(key, '(nothing)')}" for key in keys[:MOST_DEFAULTS]]
    more = f", and {len(keys) - MOST_DEFAULTS} more" if len(keys) > MOST_DEFAULTS else ""
    return f"{DEFAULTS}: {', '.join(said)}{more}" if said else ""


def _says_nothing(run: RunReview) -> bool:
    """Whether only the comments or the record of a run's file change, and not by an edit of it."""
    return run.change is Class.COSMETIC and run.cause is not None and not (run.facts or run.fields or run.codes)


def _of_releases(runs: list[RunReview]) -> Iterator[SharedReview]:
    """What neither a run's file nor a profile explains, once for each cause."""
    causes: dict[str, list[str]] = defaultdict(list)
    for run in runs:
        if run.cause is not None and not run.cause.startswith("profile "):
            causes[f"{run.cause}, in comments and records alone" if _says_nothing(run) else run.cause].append(run.run)
    for cause, names in sorted(causes.items()):
        yield SharedReview(cause, tuple(names))
