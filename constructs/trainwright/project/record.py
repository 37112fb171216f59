"""The record: what the last `synth` made of each run, one small file each, one fact a line.

``charts/lock/<run>.yaml`` is of a run, ``charts/lock/foundation/<cluster>/<namespace>.yaml`` of a foundation, and
``charts/lock/clusters/<cluster>.yaml`` holds a profile as the runs of the cluster were last compiled with it. With them `check`
knows, without Node and without parsing the YAML in ``dist/``, what is stale, edited by hand, missing or foreign, and which run
an edit outside its own file would restart. Two branches that change different runs change different files.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from pydantic import Field

from trainwright.findings import CompileError, Finding
from trainwright.findings.codes import found
from trainwright.model import Fact, Model
from trainwright.reading import validate
from trainwright.reading.document import parse_yaml, read_text
from trainwright.reading.scalar import read_scalar

HEADER = "# Written by `trainwright synth`. Review it, do not edit it; `trainwright explain` of it says what each line is.\n"
SUFFIX = ".yaml"
Digest = str


def digest(data: bytes) -> Digest:
    """128 bits of sha256, in hex: enough to tell files apart, short enough to review."""
    return hashlib.sha256(data).hexdigest()[:32]


def manifests_digest(manifests: Sequence[Mapping[str, Any]]) -> Digest:
    """Of the objects in order, keys in order: it moves whenever the YAML would."""
    return digest(json.dumps(manifests, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode())


class Releases(Model):
    """What wrote a file of ``dist/``."""

    trainwright: str
    cdk8s: str
    jsii: str


def installed_releases() -> Releases:
    """Of this environment."""
    return Releases(trainwright=version("trainwright"), cdk8s=version("cdk8s"), jsii=version("jsii"))


class FoundationRecord(Model):
    """A foundation, as the last synth left it. It has no identity, because nothing in it restarts."""

    record: Literal[1] = 1
    manifests: Digest
    """Of its objects, before they become YAML."""
    dist: Digest
    """Of its file in ``dist/``."""
    written_by: Releases | None = None
    """None where the file was written before there were records."""


class Hold(Model):
    """Why a run keeps its bytes, though today's inputs would give it others."""

    why: str
    """The reason that was given, or what would have moved the run."""
    since: str
    """Release of Trainwright that wrote what is held."""
    until: Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")] | None = None
    """Last day, or None for as long as it takes."""
    kept: Digest
    """Of its file in ``charts/held/``."""
    identity: str
    """What the inputs of the last synth would give."""
    release: str
    """Release of Trainwright that would."""
    defaults: dict[str, Fact] | None = None
    """What is held has this from the defaults; None where the run has the same today."""


class RunRecord(Model):
    """A run, as the last synth left it."""

    record: Literal[1] = 1
    state: Literal["active", "paused", "done"] = "active"
    """Of a run that is paused, the rest is what it was when it was last active."""
    identity: str
    """The end of the objects' names."""
    file: Digest
    """Of the run's own file."""
    manifests: Digest = ""
    dist: Digest = ""
    """Both empty where the run is done."""
    written_by: Releases | None = None
    hold: Hold | None = None
    """Why it keeps its bytes, which are in ``charts/held/``."""
    facts: dict[str, Fact] = Field(default_factory=dict)
    """What its plan stated; empty where that is not known any more."""
    defaults: dict[str, Fact] | None = None
    """Path such as ``env/HF_HOME`` -> what the run had there from the defaults; None where it had nothing."""
    findings: dict[str, str] | None = None
    """Code of each warning and note -> ``warning``, ``note`` or ``waived``; None where a release wrote it that did not say."""


class ClusterRecord(Model):
    """A profile, as the runs of its cluster were last compiled with it: what an identity that moves is compared with."""

    record: Literal[1] = 1
    profile: dict[str, Fact] = Field(default_factory=dict)
    """Path such as ``node_pools/h100/cpus`` -> what the profile says there."""


AnyRecord = RunRecord | FoundationRecord | ClusterRecord


class Records(NamedTuple):
    """Every record of a project."""

    runs: Mapping[str, RunRecord] = {}
    foundations: Mapping[str, FoundationRecord] = {}
    """``<cluster>/<namespace>`` -> its foundation."""
    clusters: Mapping[str, ClusterRecord] = {}
    broken: Mapping[str, tuple[Finding, ...]] = {}
    """Path below the folder of records -> why it cannot be read."""

    @property
    def dist_digests(self) -> frozenset[Digest]:
        """Digests of every file in ``dist/`` that is ours."""
        runs = {entry.dist for entry in self.runs.values() if entry.dist}
        return frozenset(runs | {entry.dist for entry in self.foundations.values()})

    @property
    def manifests_digests(self) -> frozenset[Digest]:
        """Digests of the objects in them."""
        runs = {entry.manifests for entry in self.runs.values() if entry.state == "active"}
        return frozenset(runs | {entry.manifests for entry in self.foundations.values()})

    @property
    def paths(self) -> dict[str, AnyRecord]:
        """Path below the folder of records -> record."""
        named: dict[str, AnyRecord] = {run_path(name): entry for name, entry in self.runs.items()}
        named |= {foundation_path(key): entry for key, entry in self.foundations.items()}
        return named | {cluster_path(name): entry for name, entry in self.clusters.items()}


def run_path(run: str) -> str:
    """Below the folder of records."""
    return f"{run}{SUFFIX}"


def foundation_path(key: str) -> str:
    return f"foundation/{key}{SUFFIX}"


def cluster_path(cluster: str) -> str:
    return f"clusters/{cluster}{SUFFIX}"


# Reading.


def read_records(folder: Path, shown: Callable[[Path], str]) -> Records:
    """All records of a project; one that cannot be read says so, and hides no other.

    Args:
        folder: where they are; without it there are none.
        shown: a path as findings name it.
    """
    broken: dict[str, tuple[Finding, ...]] = {}
    runs: dict[str, RunRecord] = {}
    foundations: dict[str, FoundationRecord] = {}
    clusters: dict[str, ClusterRecord] = {}
    for path in sorted(folder.glob(f"**/*{SUFFIX}")):
        below = path.relative_to(folder).with_suffix("").parts
        try:
            match below:
                case (run,):
                    runs[run] = read_record(RunRecord, path, shown(path))
                case ("clusters", cluster):
                    clusters[cluster] = read_record(ClusterRecord, path, shown(path))
                case ("foundation", cluster, namespace):
                    foundations[f"{cluster}/{namespace}"] = read_record(FoundationRecord, path, shown(path))
        except CompileError as error:
            broken[path.relative_to(folder).as_posix()] = tuple(error.findings)
    return Records(runs, foundations, clusters, broken)


R = TypeVar("R", RunRecord, FoundationRecord, ClusterRecord)


def read_record(model: type[R], path: Path, shown: str) -> R:
    """One record.

    Raises:
        CompileError: TW506 where the file is none, for instance after a merge conflict.
    """
    try:
        text = read_text(path, shown)
        return as_written(model, text) or validate(model, parse_yaml(text, shown))
    except CompileError as error:
        first = error.findings[0]
        merge = any(line.startswith(b"<<<<<<<") for line in path.read_bytes().splitlines())
        message = "it holds the marks of a merge conflict" if merge else first.message
        fix = f"take either side (`git checkout --ours {shown}`)" if merge else "restore it from git"
        finding = found("TW506", first.where, f"the record cannot be read: {message}", f"{fix}, then run `trainwright synth`")
        raise CompileError([finding]) from error


def as_written(model: type[R], text: str) -> R | None:
    """The record of a text that is just what :func:`record_text` writes, which nearly every one is; None for any other.

    Such a text is one JSON value a line, and needs no parser of YAML, which takes five times as long.
    """
    data: dict[str, Any] = {}
    inside: dict[str, Any] = data
    try:
        for line in text.removeprefix(HEADER).splitlines():
            name, _, value = line.partition(": ")
            if value:
                place = inside if line.startswith("  ") else data
                place[json.loads(name) if name.endswith('"') else name.strip()] = json.loads(value)
            else:
                inside = data[name.removesuffix(":")] = {}
        record = model.model_validate_json(json.dumps(data), strict=True)
    except ValueError:  # not JSON, or not what the model takes: what is wrong is said with its line
        return None
    return record if record_text(record) == text else None


# Writing.


def record_text(record: AnyRecord) -> str:
    """One fact a line, mappings in the order of their keys: the same bytes for the same record."""
    return HEADER + "".join(_lines(record.model_dump(exclude_none=True)))


def _lines(data: Mapping[str, Any]) -> Iterator[str]:
    for key, value in data.items():
        if isinstance(value, Mapping):
            yield f"{key}:\n" if value else f"{key}: {{}}\n"
            yield from (f"  {_key(name)}: {json.dumps(item)}\n" for name, item in sorted(value.items()))
        else:
            yield f"{key}: {json.dumps(value)}\n"


_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")


@cache
def _key(text: str) -> str:
    """Values are always quoted, because a digest such as 1234e5 reads as a number; a key only where YAML needs it."""
    return text if _PLAIN_KEY.fullmatch(text) and isinstance(read_scalar(text), str) else json.dumps(text)
