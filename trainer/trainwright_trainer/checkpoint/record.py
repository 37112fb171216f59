"""Commit record: the one small file that makes a checkpoint exist.

On disk it is one line of JSON, ``{"record": {...}, "sha256": "..."}``; the digest covers the canonical JSON of ``record``.
In place of a record there may be a fence, ``{"record": {"fenced_in_term": 7}, "sha256": "..."}``: it keeps an attempt that lost
its lease from committing this draft. A record is created and never replaced, so whichever comes first stays.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import AwareDatetime, Field, JsonValue, ValidationError, model_validator

from trainwright_trainer.checkpoint.data_file import FileDigest
from trainwright_trainer.checkpoint.volume import Attempt, CheckpointName
from trainwright_trainer.contract.base import Contract, Count, Index
from trainwright_trainer.contract.data import Data
from trainwright_trainer.contract.exit_codes import ExitCode
from trainwright_trainer.contract.model import Model
from trainwright_trainer.contract.training import TaskName, Training

SCHEMA_VERSION: Final = 1
_FENCED = "fenced_in_term"


class RecordError(ValueError):
    """A commit record that cannot be trusted: cut, damaged, or under another's name."""


class FencedError(Exception):
    """Not a record but a fence: this checkpoint will never exist."""

    def __init__(self, term: int) -> None:
        super().__init__(term)
        self.term = term


class UnknownSchemaError(Exception):
    """An intact commit record of a schema that this trainer does not know, so a newer trainer wrote it."""

    exit_code: ClassVar[ExitCode] = ExitCode.INVALID_SPEC


class CommitRecord(Contract):
    """What was saved, by whom, and the digests of all its files."""

    schema_version: Literal[1] = SCHEMA_VERSION
    identity: Annotated[str, Field(min_length=1, max_length=253)]
    """Name of the run's objects when it was written; a lineage outlives identities."""
    attempt: Attempt
    step: Index
    samples_consumed: Index
    world_size: Count
    committed_at: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC))
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
    """Whatever the engine needs to read its files again. No NaN and no infinity."""
    files: tuple[FileDigest, ...]

    @model_validator(mode="after")
    def _files_have_names_of_their_own(self) -> Self:
        counts = Counter(file.name for file in self.files)
        if twice := [name for name, count in counts.items() if count > 1]:
            raise ValueError(f"files named twice in one commit: {', '.join(twice)}")
        return self

    @property
    def name(self) -> CheckpointName:
        return CheckpointName(self.step, self.attempt)

    @property
    def size(self) -> int:
        """Bytes of all data files."""
        return sum(file.size for file in self.files)


def encode_record(record: CommitRecord) -> bytes:
    """The bytes of a record's file. Raises ``ValueError`` for metadata that JSON cannot hold."""
    body = record.model_dump(mode="json")
    try:
        text = _canonical(body)
    except ValueError as error:
        raise ValueError(f"metadata of {record.name} cannot be written as JSON: {error}") from error
    return _canonical({"record": body, "sha256": _sha256(text)}).encode() + b"\n"


def encode_fence(term: int) -> bytes:
    """The bytes of a fence that the holder of lease ``term`` puts up."""
    body = {_FENCED: term}
    return _canonical({"record": body, "sha256": _sha256(_canonical(body))}).encode() + b"\n"


def decode_record(data: bytes, name: CheckpointName) -> CommitRecord:
    """The record in ``data``, which was found under ``name``.

    Raises:
        RecordError: it is not exactly what was committed under this name.
        FencedError: it is a fence.
        UnknownSchemaError: it is intact, and of a schema version this trainer does not know.
    """
    body = _intact_body(data)
    if isinstance(term := body.get(_FENCED), int):
        raise FencedError(term)
    version = body.get("schema_version")
    if version != SCHEMA_VERSION:
        raise UnknownSchemaError(
            f"the commit record of {name} has schema version {version} and this trainer knows {SCHEMA_VERSION}: "
            "use the image that wrote it or a newer one, or start a new lineage"
        )
    try:
        record = CommitRecord.model_validate(body)
    except ValidationError as error:
        first = error.errors()[0]
        raise RecordError(f"{'.'.join(map(str, first['loc'])) or 'record'}: {first['msg']}") from error
    if record.name != name:
        raise RecordError(f"it is the record of {record.name}")
    return record


def _intact_body(data: bytes) -> dict[str, Any]:
    try:
        outer = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise RecordError("it is not JSON: cut or damaged") from error
    if not isinstance(outer, dict) or set(outer) != {"record", "sha256"} or not isinstance(outer["record"], dict):
        raise RecordError("it lacks its record or its sha256")
    try:
        actual = _sha256(_canonical(outer["record"]))
    except ValueError as error:
        raise RecordError("it holds a number that JSON does not know") from error
    if outer["sha256"] != actual:
        raise RecordError(f"its sha256 is {actual} and should be {outer['sha256']}")
    return outer["record"]


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


TRAINED = "trained"
"""Key of a commit record's ``metadata`` that holds a :class:`Trained`, for records that say it."""
INITIAL_WEIGHTS = "initial_weights"
"""Key of the directory that a run started from, where it did not start from random values."""


class Trained(Contract):
    """Part of a run's specification."""

    task: TaskName
    model: Model
    data: Data

    @classmethod
    def of(cls, training: Training) -> Self:
        return cls(task=training.task, model=training.model, data=training.data)

    @classmethod
    def from_metadata(cls, metadata: dict[str, Any]) -> Self | None:
        """None where a record does not say it, or says it in words of another release."""
        try:
            return cls.model_validate(metadata[TRAINED])
        except (KeyError, ValidationError):
            return None
