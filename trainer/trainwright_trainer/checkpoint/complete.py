"""COMPLETE marker: which identity reached its target.

A finished index of a Job never comes back, so a pod that dies in teardown must not wait for its peers: its replacement finds
the marker and ends at once.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from pydantic import AwareDatetime, Field, ValidationError

from trainwright_trainer.checkpoint.layout import Attempt
from trainwright_trainer.checkpoint.volume import open_volume
from trainwright_trainer.contract.base import Contract, Index
from trainwright_trainer.contract.layout import COMPLETE_MARKER


class Complete(Contract):
    """The identity that reached its target, at which step, in which attempt."""

    identity: str
    step: Index
    attempt: Attempt
    completed_at: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC))


def write_complete(directory: Path | str, identity: str, step: int, attempt: str) -> Complete:
    """Write the marker, after the final commit; it replaces one of an earlier identity. Raises :class:`StorageError`."""
    complete = Complete(identity=identity, step=step, attempt=attempt)
    open_volume(directory).replace(COMPLETE_MARKER, complete.model_dump_json().encode() + b"\n")
    return complete


def read_complete(directory: Path | str) -> Complete | None:
    """The marker, of whichever identity. A damaged one counts as none: the run resumes at its last commit and writes it again.

    Raises :class:`StorageError` where the volume cannot be read.
    """
    data = open_volume(directory).read(COMPLETE_MARKER)
    try:
        return None if data is None else Complete.model_validate_json(data)
    except ValidationError:
        return None
