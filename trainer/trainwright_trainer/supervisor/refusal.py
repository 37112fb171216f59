"""Refusal: an end that is decided before any rank runs."""

from __future__ import annotations

from trainwright_trainer.contract.exit_codes import Cause, ExitCode


class Refusal(Exception):  # noqa: N818 - the word says it
    """The pod cannot take part. ``message`` is one sentence for a person: what is wrong, and what to write instead."""

    def __init__(self, code: ExitCode, kind: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.cause = Cause(kind=kind, message=message)
