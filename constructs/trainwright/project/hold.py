"""Held runs: each keeps its objects as they are, byte for byte, where a profile, a default or the compiler would rename them.

``charts/held/<run>.yaml`` has the run's file of ``dist/``, then what the run needs of its foundation. Every synth copies them, so
that ``dist/`` may be emptied first. The run's record says why it is held.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from trainwright.cluster import Cluster
from trainwright.findings import CompileError, Finding, Severity, Where
from trainwright.findings.codes import found
from trainwright.manifest.kinds import GroupKind
from trainwright.manifest.kueue import LOCAL_QUEUE, QUEUE_LABEL
from trainwright.manifest.labels import in_foundation
from trainwright.manifest.pods import containers_of, pods_in
from trainwright.model import Fact
from trainwright.operators import TARGETS
from trainwright.project.record import Hold, RunRecord, digest, read_record, run_path
from trainwright.reading.document import parse_yaml, read_text
from trainwright.reading.scalar import read_scalar
from trainwright.report.header import split_header
from trainwright.rules.cluster.profile import image_findings
from trainwright.rules.pods.pod_security import violations

Manifest = dict[str, Any]

HEADER = "# Written by `trainwright hold`; synth copies it to dist/. `trainwright explain` of it says when it ends.\n"
NEEDED = "# What the run needs of its foundation.\n"
REFERENCES = {
    GroupKind("", "PersistentVolumeClaim"): "claimName",
    LOCAL_QUEUE.key: QUEUE_LABEL,
}
"""What a profile describes, and may change in place -> the key under which a run's objects name it."""

_SEPARATOR = re.compile(r"^---\n", re.MULTILINE)
"""Between two documents: no line of a document that cdk8s writes begins with it."""


class HeldRun(NamedTuple):
    """A run that keeps its bytes."""

    shown: str
    """Path of its file, as findings name it."""
    record: RunRecord
    """As the last synth, or `hold`, left it."""
    hold: Hold
    text: str
    """The run's file of ``dist/``."""
    manifests: tuple[Manifest, ...]
    needed: tuple[Manifest, ...]
    """Objects of the foundation."""

    def goes_on(self, file: str, identity: str) -> bool:
        """Whether it stays held: its file has not changed, or not in a way that would restart it.

        Args:
            file: digest of the run's file.
            identity: what today's inputs give.
        """
        return file == self.record.file or identity == self.hold.identity

    def recorded(self, file: str, identity: str, defaults: dict[str, Fact] | None) -> RunRecord:
        """Its record today: bytes, identity and facts are those that it keeps."""
        kept = (self.record.defaults or {}) if self.hold.defaults is None else self.hold.defaults
        differ = kept if kept != (defaults or {}) else None
        hold = self.hold.model_copy(update={"identity": identity, "release": version("trainwright"), "defaults": differ})
        return self.record.model_copy(update={"state": "active", "file": file, "hold": hold, "defaults": defaults})

    def expired(self, run: str, today: date) -> Iterator[Finding]:
        """Says so after its last day. The bytes stay until somebody decides."""
        if self.hold.until is not None and date.fromisoformat(self.hold.until) < today:
            message = f"{run} was held until {self.hold.until} (reason: {self.hold.why})"
            fix = f"let it restart with `trainwright roll {run}`, or hold it longer with `trainwright hold {run} --until DATE`"
            yield found("TW511", Where(self.shown), message, fix)


def held_path(folder: Path, run: str) -> Path:
    return folder / f"{run}.yaml"


def read_held(folder: Path, records: Path, shown: Callable[[Path], str]) -> tuple[dict[str, HeldRun], list[Finding]]:
    """Run -> what is held of it, and findings for files that cannot be used. A file that no record asks for is left out.

    Args:
        folder: ``charts/held``.
        records: the folder of records.
        shown: a path as findings name it.
    """
    held: dict[str, HeldRun] = {}
    findings: list[Finding] = []
    for path in sorted(folder.glob("*.yaml")):
        record_path = records / run_path(path.stem)
        if not record_path.is_file():
            continue
        try:
            record = read_record(RunRecord, record_path, shown(record_path))
            if record.hold is not None:
                held[path.stem] = _read(path, shown(path), record, record.hold)
        except CompileError as error:
            findings += error.findings
    return held, findings


def _read(path: Path, shown: str, record: RunRecord, hold: Hold) -> HeldRun:
    whole = read_text(path, shown)
    if digest(whole.encode()) != hold.kept:
        fix = f"restore it from git; or let the run restart with `trainwright roll {path.stem}`"
        message = f"{shown} is not what was held: its bytes are not those of the record"
        raise CompileError([found("TW512", Where(shown), message, fix)])
    text, _, needed = re.sub(r"\A# Written by `trainwright hold`.*\n", "", whole).partition(f"---\n{NEEDED}")
    return HeldRun(shown, record, hold, text, tuple(objects_in(text, shown)), tuple(objects_in(needed, shown)))


def objects_in(text: str, shown: str) -> Iterator[Manifest]:
    """The objects of a file that we wrote."""
    for part in _SEPARATOR.split(text):
        if part:
            yield parse_yaml(part, shown, read_scalar).data


def held_text(run: str, foundation: str, shown: str) -> str:
    """What to keep of a run: its file of ``dist/``, and the objects of the foundation's that it needs."""
    manifests = list(objects_in(run, shown))
    below = _SEPARATOR.split(split_header(foundation)[1])
    parts = [part for part in below if part and needs(manifests, parse_yaml(part, shown, read_scalar).data)]
    return HEADER + run + (f"---\n{NEEDED}" + "---\n".join(parts) if parts else "")


def needs(run: Sequence[Manifest], manifest: Manifest) -> bool:
    """Whether a run's objects need this one of the foundation: a claim, a queue, a runtime, or a Job that fetches data.

    A Job writes into a folder that is called after the source, and the run's pods mount that folder.
    """
    name, kind = manifest["metadata"]["name"], GroupKind.of(manifest)
    if kind in REFERENCES:
        return name in {value for one in run for value in _values(one, REFERENCES[kind])}
    if any(kind == target.shared for target in TARGETS.values()):  # named by its content, so no other text is the same
        return name in {text for one in run for text in _texts(one)}
    folders = tuple(f"/{path}" for one in run for path in _values(one, "subPath"))
    return in_foundation(manifest) and any(text.endswith(folders) for text in _texts(manifest))


def _values(node: Any, key: str) -> Iterator[str]:
    if isinstance(node, Mapping):
        for name, value in node.items():
            if name == key and isinstance(value, str):
                yield value
            yield from _values(value, key)
    elif isinstance(node, list):
        for item in node:
            yield from _values(item, key)


def _texts(node: Any) -> Iterator[str]:
    if isinstance(node, str):
        yield node
    elif isinstance(node, Mapping | list):
        for item in node.values() if isinstance(node, Mapping) else node:
            yield from _texts(item)


def from_profile(manifest: Manifest) -> bool:
    """Whether a profile describes the object, and may change it in place; others are named by their content."""
    return GroupKind.of(manifest) in REFERENCES


def check_held(run: str, held: HeldRun, cluster: Cluster, namespace: str) -> Iterator[Finding]:
    """What today's profile refuses of a held run's pods, which are applied as they are. Whether there still are the claims and
    the queue that it names is found where the run compiles.
    """
    where, fix = Where(held.shown), f"let it restart with `trainwright roll {run}`"
    level = cluster.namespaces[namespace].pod_security
    for pod in (pod.spec for manifest in held.manifests for pod in pods_in(manifest)):
        problems = dict.fromkeys(problem for _, problem in violations(pod, level, cluster.kubernetes))
        if problems:
            message = f"{run} is held, and pod security {level} refuses its pods: {', '.join(problems)}"
            yield found("TW604", where, message, fix)
        for _, container in containers_of(pod):
            findings = image_findings(str(container.get("image")), cluster, where)
            yield from (one for one in findings if one.severity is Severity.ERROR)
