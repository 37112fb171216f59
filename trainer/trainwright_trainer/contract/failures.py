"""Errors that carry an exit code, and the code for errors that do not."""

from __future__ import annotations

import sys
from typing import ClassVar

from trainwright_trainer.contract.exit_codes import Cause, ExitCode


class Refusal(Exception):  # noqa: N818 - the word says it
    """The pod cannot take part. ``message`` is one sentence for a person: what is wrong, and what to write instead."""

    def __init__(self, code: ExitCode, kind: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.cause = Cause(kind=kind, message=message)


# What gloo and NCCL say when the other end of a connection is gone; they raise plain RuntimeError for it.
_PEER_GONE = (
    "connection closed by peer", "connection reset by peer", "connection refused", "broken pipe", "socket timeout",
    "timed out waiting", "no route to host", "application timeout", "remote process exited",
)
_OUT_OF_MEMORY = ("can't allocate memory", "out of memory")
# Results of NCCL that no peer is to blame for (torch names them in getNcclErrorDetailStr): two ranks on one GPU, a broken driver.
_NCCL_AT_FAULT = ("ncclinvalidusage", "ncclinvalidargument", "ncclinternalerror", "ncclunhandledcudaerror")
MESSAGE_CHARACTERS = 2000
"""A cause travels in lines of limited length, and a termination message holds 4 KiB."""


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


def code_of(error: BaseException) -> ExitCode:
    """The exit code for any exception that ends a rank. Errors of our own name theirs as ``exit_code``."""
    own = own_code(error)
    if own is not None:
        return own
    if isinstance(error, MemoryError) or _is_torch_error(error, "OutOfMemoryError") or _says(error, _OUT_OF_MEMORY):
        return ExitCode.OUT_OF_MEMORY
    if _says(error, _NCCL_AT_FAULT):
        return ExitCode.INTERNAL
    if isinstance(error, ConnectionError) or _is_torch_error(error, "DistError") or _says(error, _PEER_GONE):
        return ExitCode.PEER_LOST
    return ExitCode.INTERNAL


def cause_of(error: BaseException, rank: int | None) -> Cause:
    """One sentence: the first line of the message, without a traceback, cut where it is very long."""
    lines = str(error).strip().splitlines()
    message = lines[0].strip() if lines else "no message"
    # A path may hold bytes that are no text, which JSON cannot carry.
    message = message[:MESSAGE_CHARACTERS].encode(errors="backslashreplace").decode()
    known = own_code(error) is not None
    return Cause(rank=rank, kind=type(error).__name__, message=message if known else f"{type(error).__name__}: {message}")


def own_code(error: BaseException) -> ExitCode | None:
    """The code that an error of this package names itself; None for an error that nobody foresaw."""
    code = error.code if isinstance(error, Refusal) else getattr(error, "exit_code", None)
    return code if isinstance(code, ExitCode) else None


def _is_torch_error(error: BaseException, name: str) -> bool:
    """Whether the error derives from one of torch's exception classes. Asks by name, so that torch need not be importable."""
    return "torch" in sys.modules and any(
        base.__name__ == name and base.__module__.startswith("torch") for base in type(error).__mro__
    )


def _says(error: BaseException, phrases: tuple[str, ...]) -> bool:
    return isinstance(error, RuntimeError) and any(phrase in str(error).lower() for phrase in phrases)
