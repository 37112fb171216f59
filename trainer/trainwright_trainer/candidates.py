"""Candidates: the commits that a resume may take, in the order in which they are tried.

The newest comes first, but for the last attempt that a run may make without progress. A checkpoint can verify and still lead
every attempt into the same crash, by weights that are near to overflow for example; so that attempt begins with a commit of an
earlier step, if there is one. Nothing is set aside for it: the newest stays where it is, for a person to look at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trainwright_trainer.checkpoint import CommitRecord
from trainwright_trainer.lifecycle.messages import RESUME_BEFORE_ENV
from trainwright_trainer.log import get_log


def resume_before(environment: Mapping[str, str]) -> int | None:
    """The step that this attempt passes over, from the environment that its supervisor gave it; None for most."""
    text = environment.get(RESUME_BEFORE_ENV, "")
    return int(text) if text.isascii() and text.isdigit() else None


def in_order(records: Sequence[CommitRecord], before: int | None) -> list[CommitRecord]:
    """The commits, given newest first: those of steps below ``before``, then the others."""
    return sorted(records, key=lambda record: before is not None and record.step >= before)


def tell_passed_over(records: Sequence[CommitRecord], taken: CommitRecord, before: int | None) -> None:
    """Say in the log which commit was passed over for the one that is taken, if one was (rank 0)."""
    newest = max((record.step for record in records), default=0)
    if before is not None and taken.step < before <= newest:
        reason = f"the attempts before this one began there and got no further, so the last that is left begins with {taken.name}"
        get_log().warning("checkpoint_passed_over", step=newest, reason=reason)
