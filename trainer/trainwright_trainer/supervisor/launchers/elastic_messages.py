"""What a supervisor and its meeting program say to each other: one JSON object a line over an inherited socket."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from trainwright_trainer.contract.base import Contract, Count, Index, Port

ADDRESS_ENV, HOST_ENV = "TRAINWRIGHT_MEETING_ADDRESS", "TRAINWRIGHT_MEETING_HOST"
"""Environment variables of the meeting program: the address of its node, and any value where it hosts the store."""


class Meet(Contract):
    """Leave the round that this node is in, if any, and join the next one."""

    type: Literal["meet"] = "meet"


class Met(Contract):
    """A round is complete."""

    type: Literal["met"] = "met"
    node: Index
    nodes: Count
    host: str
    """Where rank 0 listens."""
    port: Port
    attempt: str
    """The round's nonce, the same on every node."""


class Waiting(Contract):
    """Somebody waits to be let in. Said once a round."""

    type: Literal["waiting"] = "waiting"
    nodes: Count


class NotMet(Contract):
    """No round came about in time."""

    type: Literal["not_met"] = "not_met"
    why: str


class StoreLost(Contract):
    """The store at which nodes meet does not answer any more."""

    type: Literal["store_lost"] = "store_lost"
    why: str


FromMeetingMessage = Met | Waiting | NotMet | StoreLost
FROM_MEETING: TypeAdapter[FromMeetingMessage] = TypeAdapter(Annotated[FromMeetingMessage, Field(discriminator="type")])
