"""The lock: what the last `synth` made of each run, small enough to review.

With it `check` knows, without Node and without parsing YAML, whether ``dist/`` is stale, edited by hand, missing or foreign, and
whether a run would be restarted by an edit that was not made in its own file.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from trainwright.findings import CompileError
from trainwright.findings.codes import found
from trainwright.model import Model
from trainwright.reading import validate
from trainwright.reading.document import read_yaml
from trainwright.reading.scalar import read_scalar

HEADER = "# Written by `trainwright synth`. Review it, do not edit it; docs/lock.md says what each digest is of.\n"
Digest = str


def digest(data: bytes) -> Digest:
    """128 bits of sha256, in hex: enough to tell files apart, short enough to review."""
    return hashlib.sha256(data).hexdigest()[:32]


def manifests_digest(manifests: Sequence[Mapping[str, Any]]) -> Digest:
    """Of the objects in order, keys in order: it moves whenever the YAML would."""
    return digest(json.dumps(manifests, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode())


class LockedRun(Model):
    """One run, as the last synth left it."""

    file: Digest
    """Of the run's own file."""
    hash: str
    """Identity hash: the end of the objects' names."""
    state: Literal["active", "done"] = "active"
    manifests: Digest = ""
    dist: Digest = ""


class LockedFoundation(Model):
    manifests: Digest
    dist: Digest


class Lock(Model):
    """Everything that the last synth wrote."""

    lock: Literal[1] = 1
    foundations: dict[str, LockedFoundation] = Field(default_factory=dict)
    """``<cluster>/<namespace>`` -> its foundation."""
    runs: dict[str, LockedRun] = Field(default_factory=dict)

    @property
    def dist_digests(self) -> frozenset[Digest]:
        """Digests of every file in ``dist/`` that is ours."""
        runs = {entry.dist for entry in self.runs.values() if entry.dist}
        return frozenset(runs | {entry.dist for entry in self.foundations.values()})


def read_lock(path: Path, shown: str | None = None) -> Lock:
    """The lock, or an empty one where there is none yet; ``shown`` is its path as findings name it.

    Raises:
        CompileError: where the file is not a lock, for instance after a merge conflict.
    """
    if not path.exists():
        return Lock()
    try:
        return validate(Lock, read_yaml(path, shown))
    except CompileError as error:
        first = error.findings[0]
        merge = any(line.startswith(b"<<<<<<<") for line in path.read_bytes().splitlines())
        message = "it holds the marks of a merge conflict" if merge else first.message
        fix = "take either side, then run `trainwright synth`" if merge else "restore it from git, then run `trainwright synth`"
        raise CompileError([found("TW506", first.where, f"the lock cannot be read: {message}", fix)]) from error


def lock_text(lock: Lock) -> str:
    """One line an entry, in name order, so that two branches that add runs merge."""
    lines = [HEADER, f"lock: {lock.lock}\n"]
    for title, entries in (("foundations", lock.foundations), ("runs", lock.runs)):
        lines.append(f"{title}:\n" if entries else f"{title}: {{}}\n")
        for name, entry in sorted(entries.items()):
            fields = ", ".join(f"{key}: {_scalar(value)}" for key, value in entry.model_dump().items())
            key = name if isinstance(read_scalar(name), str) else _scalar(name)  # a run may be called true, or null
            lines.append(f"  {key}: {{{fields}}}\n")
    return "".join(lines)


def _scalar(value: str) -> str:
    """Quoted, because a digest such as 1234e5 reads as a number."""
    return f'"{value}"'
