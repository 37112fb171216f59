"""Errors that carry an exit code. How any other error maps to a code stands in :mod:`rank.ending`."""

from __future__ import annotations

from typing import ClassVar

from trainwright_trainer.contract.exit_codes import Cause, ExitCode


class RankError(Exception):
    """An end with a known cause. The message is one sentence for the person who reads the termination message."""

    exit_code: ClassVar[ExitCode] = ExitCode.INTERNAL


class InvalidRunError(RankError):
    """The specification is well formed, and something in it cannot be built on this machine."""

    exit_code = ExitCode.INVALID_SPEC


class TopologyMismatchError(RankError):
    """What the specification declares is not what this process finds."""

    exit_code = ExitCode.TOPOLOGY_MISMATCH


class DataError(RankError):
    """Data is missing, or is not the data that the checkpoint was trained on."""

    exit_code = ExitCode.DATA_CHANGED


class NoCheckpointError(RankError):
    """Resume is required and nothing verifies."""

    exit_code = ExitCode.NO_CHECKPOINT


class DivergedError(RankError):
    """Loss or gradients are not finite."""

    exit_code = ExitCode.DIVERGED


class OutOfMemoryLaterError(RankError):
    """Out of memory, after steps of the same attempt fitted."""

    exit_code = ExitCode.OUT_OF_MEMORY_LATER


class PodError(Exception):
    """A pod cannot take part. ``message`` is one sentence for a person: what is wrong, and what to write instead."""

    def __init__(self, code: ExitCode, kind: str, message: str) -> None:
        super().__init__(message)
        self.exit_code = code
        self.cause = Cause(kind=kind, message=message)


def own_code(error: BaseException) -> ExitCode | None:
    """The code that an error of this package names itself; None for an error that nobody foresaw."""
    code = getattr(error, "exit_code", None)
    return code if isinstance(code, ExitCode) else None
