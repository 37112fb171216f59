"""The termination message: what ``kubectl describe pod`` shows of an ended pod."""

from typing import Literal

from trainwright_trainer.contract.base import Contract
from trainwright_trainer.contract.exit_codes import EXIT_CODES, ExitCode

TERMINATION_PATH = "/dev/termination-log"
MAX_BYTES = 4096
"""Kubernetes cuts a container's message there."""


class Cause(Contract):
    """Who failed first, and how."""

    rank: int | None = None
    kind: str
    message: str


class TerminationMessage(Contract):
    """One JSON object of at most 4 KiB."""

    v: Literal[1] = 1
    run: str
    identity: str
    attempt: str
    code: int
    reason: str
    node_index: int | None = None
    host: str | None = None
    step: int | None = None
    committed_step: int | None = None
    attempts: int | None = None
    """At this identity so far, this one included; None where this pod does not know."""
    goodput: float | None = None
    """Of all of them: the share of the time since the first began that went into steps done for the first time. None for a
    script, and where this pod does not know of the others."""
    cause: Cause | None = None

    def to_json(self) -> str:
        """Compact JSON; a long cause is cut so that the whole stays valid and within ``MAX_BYTES``."""
        message = self
        while len(text := message.model_dump_json(exclude_none=True).encode()) > MAX_BYTES and message.cause:
            if len(message.cause.message) <= 1:
                break  # something else is too long: Kubernetes cuts it
            keep = max(0, len(message.cause.message) - (len(text) - MAX_BYTES) - 16)
            shorter = message.cause.model_copy(update={"message": message.cause.message[:keep] + "…"})
            message = message.model_copy(update={"cause": shorter})
        return text.decode()


def reason_of(code: ExitCode) -> str:
    return EXIT_CODES[code].reason
