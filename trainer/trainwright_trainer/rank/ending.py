"""The end of a rank's process: a documented code, a cause and a line in the log for every way out, and its grace period."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import NoReturn

from trainwright_trainer.contract.exit_codes import Cause, ExitCode
from trainwright_trainer.contract.failures import own_code
from trainwright_trainer.contract.layout import EXIT_MARGIN_SECONDS
from trainwright_trainer.observe.log import configure, get_log
from trainwright_trainer.rank.link import Link, open_link
from trainwright_trainer.rank.messages import ATTEMPT_ENV

Train = Callable[[Mapping[str, str], Link], ExitCode]
"""One attempt of one rank, from its environment to the code of an end in order."""
# What gloo, NCCL and torch's store (torch/csrc/distributed/c10d, socket.cpp and TCPStore) say when the other end of a connection
# is gone or silent; gloo raises plain RuntimeError for it.
_PEER_GONE = (
    "connection closed by peer", "connection reset by peer", "connection refused", "broken pipe", "socket timeout",
    "timed out waiting", "no route to host", "application timeout", "remote process exited", "connection was likely closed",
    "socket has timed out", "timed out after", "wait timeout", "failed to connect", "closed by remote peer",
    "communicator was aborted", "ncclremoteerror", "ncclsystemerror", "watchdog caught collective operation timeout",
)
_AT_FAULT_HERE = {
    "address already in use": (
        "another process of this node listens there: end it, or keep runs with host_network from sharing a node or a port"
    ),
    "unable to find address for": (
        "this pod has no such network interface: correct the interfaces of the node pool in the cluster profile, or "
        "GLOO_SOCKET_IFNAME"
    ),
    "no socket interface found": (
        "this pod has no network interface of that name: correct the interfaces of the node pool in the cluster profile, or "
        "NCCL_SOCKET_IFNAME"
    ),
}
"""What this pod's own network refuses, in the words of torch, gloo and NCCL -> what to do. No peer is to blame for it."""
_OUT_OF_MEMORY = ("can't allocate memory", "out of memory")
# Results of NCCL that no peer is to blame for (torch names them in getNcclErrorDetailStr): two ranks on one GPU, a broken driver.
_NCCL_AT_FAULT = ("ncclinvalidusage", "ncclinvalidargument", "ncclinternalerror", "ncclunhandledcudaerror")
MESSAGE_CHARACTERS = 2000
"""A cause travels in lines of limited length, and a termination message holds 4 KiB."""


def attempt(train: Train, environment: Mapping[str, str]) -> ExitCode:
    """Open the link and train; every error becomes a code."""
    configure("unknown", "unknown", environment.get(ATTEMPT_ENV))
    link = open_link(environment)
    link.phase("starting")
    try:
        return train(environment, link)
    except BaseException as error:
        return fail(error, environment, link)


def fail(error: BaseException, environment: Mapping[str, str], link: Link) -> ExitCode:
    """Say what ended this rank, in the log and to the supervisor."""
    rank = environment.get("RANK", "")
    code, cause = code_of(error), cause_of(error, int(rank) if rank.isdecimal() else None)
    get_log().error("rank_failed", code=int(code), reason=cause.message, exc_info=error if own_code(error) is None else None)
    link.result(code, cause)
    return code


def leave(code: int) -> NoReturn:
    """End the process hard: a stuck collective or a library's thread must not hold it."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def code_of(error: BaseException) -> ExitCode:
    """The exit code for any exception that ends a rank. Errors of our own name theirs as ``exit_code``."""
    own = own_code(error)
    if own is not None:
        return own
    if is_out_of_memory(error):
        return ExitCode.OUT_OF_MEMORY
    if _says(error, _NCCL_AT_FAULT) or _says(error, tuple(_AT_FAULT_HERE)):
        return ExitCode.INTERNAL
    if isinstance(error, ConnectionError) or _says(error, _PEER_GONE):
        return ExitCode.PEER_LOST
    return ExitCode.INTERNAL


def is_out_of_memory(error: BaseException) -> bool:
    """Of a GPU or of the host."""
    return isinstance(error, MemoryError) or _is_torch_error(error, "OutOfMemoryError") or _says(error, _OUT_OF_MEMORY)


def cause_of(error: BaseException, rank: int | None) -> Cause:
    """One sentence: the first line of the message, without a traceback, cut where it is very long."""
    lines = str(error).strip().splitlines()
    message = lines[0].strip() if lines else "no message"
    # A path may hold bytes that are no text, which JSON cannot carry.
    message = message[:MESSAGE_CHARACTERS].encode(errors="backslashreplace").decode()
    if own_code(error) is None:
        message = f"{type(error).__name__}: {message}"
        message += "".join(f"; {remedy}" for words, remedy in _AT_FAULT_HERE.items() if _says(error, (words,)))
    return Cause(rank=rank, kind=type(error).__name__, message=message)


def _is_torch_error(error: BaseException, name: str) -> bool:
    """Whether the error derives from one of torch's exception classes. Asks by name, so that torch need not be importable."""
    return "torch" in sys.modules and any(
        base.__name__ == name and base.__module__.startswith("torch") for base in type(error).__mro__
    )


def _says(error: BaseException, phrases: tuple[str, ...]) -> bool:
    return isinstance(error, RuntimeError) and any(phrase in str(error).lower() for phrase in phrases)


def seconds_for_save(grace_seconds: float) -> float:
    """What a grace period, from SIGTERM to SIGKILL, leaves for a save."""
    return max(0.0, grace_seconds - EXIT_MARGIN_SECONDS)


def warn_of_slow_save(seconds: float, grace_seconds: float) -> None:
    """Say after a save that a run that is told to end could not make it: while there is time to give it more."""
    if seconds > (left := seconds_for_save(grace_seconds)):
        reason = "a run that is told to end would lose what it has not saved; raise the grace period, or save faster"
        get_log().warning("save_exceeds_grace", seconds=round(seconds, 3), seconds_for_save=round(left, 3), reason=reason)
