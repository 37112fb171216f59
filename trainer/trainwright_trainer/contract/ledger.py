"""Lines of the ledger of attempts, which node 0's supervisor writes beside the checkpoints: ``attempts.jsonl``."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import AwareDatetime, Field, TypeAdapter, ValidationError

from trainwright_trainer.contract.base import Contract, Elapsed, Index


def _now() -> datetime:
    return datetime.now(UTC)


class AttemptStarted(Contract):
    """All pods met and an attempt began at this commit; None before the first."""

    event: Literal["started"] = "started"
    identity: str
    attempt: str
    committed_step: Index | None
    time: AwareDatetime = Field(default_factory=_now)


class AttemptEnded(Contract):
    """An attempt ended in order; one that was killed leaves no such line."""

    event: Literal["ended"] = "ended"
    identity: str
    attempt: str
    code: int
    committed_step: Index | None
    time: AwareDatetime = Field(default_factory=_now)


class AttemptTimes(Contract):
    """How an attempt has spent its time until now; noted now and then, so that one that is killed has left most of it."""

    event: Literal["times"] = "times"
    identity: str
    attempt: str
    seconds: dict[str, Elapsed]
    """By phase. ``training`` is for steps that no earlier attempt had done, ``replaying`` for the others."""
    step: Index | None
    """Last step that is known to be done."""
    time: AwareDatetime = Field(default_factory=_now)


Event = AttemptStarted | AttemptEnded | AttemptTimes
_EVENT: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="event")])


def events_in(ledger: bytes | str) -> Iterator[Event]:
    """Every event in order. Lines that are cut or damaged are passed over."""
    for line in ledger.splitlines():
        try:
            yield _EVENT.validate_json(line)
        except ValidationError:
            continue
