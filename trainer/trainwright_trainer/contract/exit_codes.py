"""How a pod ends: its exit code and its termination message.

The supervisor obeys the one table of codes, and the compiler renders failure policies from it. Permanent codes stay in 10-29 and
retryable ones in 200-249. That is legal for a Job's ``podFailurePolicy``, for Kubeflow's ``restartPolicy: ExitCode`` (1-127
permanent, 128-255 retried) and clear of 1, 2, 126-128 and 128+signal.
"""

from collections.abc import Container
from enum import Enum, IntEnum
from typing import Literal, NamedTuple

from trainwright_trainer.contract.base import Contract, Report


class Disposition(Enum):
    """What an operator should do with a pod that ended with a code."""

    DONE = "done"
    PERMANENT = "permanent"
    """The same pod would fail again: end the job."""
    COUNTED = "counted"
    """Worth another try, against the retry budget."""
    IGNORED = "ignored"
    """Not this pod's fault: retry without touching the budget (the attempt ledger ends a loop with NO_PROGRESS)."""


class ExitCode(IntEnum):
    """What a pod ends with; :data:`EXIT_CODES` says what each means."""

    DONE = 0
    INVALID_SPEC = 10
    TOPOLOGY_MISMATCH = 11
    DATA_CHANGED = 12
    NO_CHECKPOINT = 13
    DIVERGED = 14
    OUT_OF_MEMORY = 15
    NO_PROGRESS = 16
    RETRIES_SPENT = 17
    INTERNAL = 200
    NODE_UNHEALTHY = 201
    PEER_LOST = 202
    STORAGE = 203
    HANG = 204
    PEERS_NEVER_CAME = 205
    OUT_OF_MEMORY_LATER = 206
    PREEMPTED_SAVED = 210
    PREEMPTED_NOT_SAVED = 211
    USER_FAILURE = 220


class ExitCodeEntry(NamedTuple):
    """One row of the table."""

    code: ExitCode
    reason: str
    """CamelCase word for the termination message."""
    meaning: str
    disposition: Disposition
    remedy: str


def _table(*rows: ExitCodeEntry) -> dict[ExitCode, ExitCodeEntry]:
    return {row.code: row for row in rows}


_D, _P, _C, _I = Disposition.DONE, Disposition.PERMANENT, Disposition.COUNTED, Disposition.IGNORED

EXIT_CODES = _table(
    ExitCodeEntry(ExitCode.DONE, "Completed", "target reached and the final checkpoint committed", _D, "nothing"),
    ExitCodeEntry(ExitCode.INVALID_SPEC, "InvalidSpec", "the run specification is invalid or of an unknown version", _P,
                  "fix the run, or use an image whose trainer knows this version"),
    ExitCodeEntry(ExitCode.TOPOLOGY_MISMATCH, "TopologyMismatch", "the declared topology differs from the real one", _P,
                  "compare nodes, processes per node and the image of every pod"),
    ExitCodeEntry(ExitCode.DATA_CHANGED, "DataChanged", "data is missing or its fingerprint changed", _P,
                  "restore the data, or start a new lineage"),
    ExitCodeEntry(ExitCode.NO_CHECKPOINT, "NoCheckpoint", "a checkpoint was committed, or is required, and none verifies", _P,
                  "restore one, or start at step 0 as the message says"),
    ExitCodeEntry(ExitCode.DIVERGED, "Diverged", "the loss or the gradients are not finite", _P,
                  "lower the learning rate or lengthen the warm-up"),
    ExitCodeEntry(ExitCode.OUT_OF_MEMORY, "OutOfMemory", "out of memory before a step of the attempt was done", _P,
                  "lower the micro batch and raise accumulation"),
    ExitCodeEntry(ExitCode.NO_PROGRESS, "NoProgress", "several attempts ended without a newer checkpoint", _P,
                  "read the termination messages of the attempts in the ledger"),
    ExitCodeEntry(ExitCode.RETRIES_SPENT, "RetriesSpent", "as many attempts have failed inside the pods as the run may restart",
                  _P, "read the cause, which is the last one's; then raise restarts, or start the run again"),
    ExitCodeEntry(ExitCode.INTERNAL, "InternalError", "an unexpected error", _C, "read the log of the named rank"),
    ExitCodeEntry(ExitCode.NODE_UNHEALTHY, "NodeUnhealthy", "the node failed a health check", _C, "cordon the node"),
    ExitCodeEntry(ExitCode.PEER_LOST, "PeerLost", "another pod of the run ended or fell silent", _I,
                  "look for the pod that ended first"),
    ExitCodeEntry(ExitCode.STORAGE, "StorageUnavailable", "the checkpoint volume cannot be read or written", _C,
                  "check the claim: space, quota, permissions"),
    ExitCodeEntry(ExitCode.HANG, "Hang", "a rank made no progress, and the watchdog ended it", _C,
                  "read the stack dump next to the checkpoints"),
    ExitCodeEntry(ExitCode.PEERS_NEVER_CAME, "PeersNeverCame", "not all pods joined in time", _C,
                  "look for pods that are not scheduled"),
    ExitCodeEntry(ExitCode.OUT_OF_MEMORY_LATER, "OutOfMemoryLater", "out of memory after steps that fitted", _C,
                  "look for what else used the memory; if it comes back, lower the micro batch"),
    ExitCodeEntry(ExitCode.PREEMPTED_SAVED, "PreemptedSaved", "told to end; every finished step is committed", _I, "nothing"),
    ExitCodeEntry(ExitCode.PREEMPTED_NOT_SAVED, "PreemptedNotSaved", "told to end; steps since the last commit are lost", _I,
                  "compare the save time with the grace period"),
    ExitCodeEntry(ExitCode.USER_FAILURE, "UserFailure", "the user's own program failed", _C, "read its log"),
)
"""Every code with its meaning, its disposition and what to do about it."""


IN_PLACE = frozenset({ExitCode.RETRIES_SPENT})
"""Codes that only a run ends with that recovers in place (``lifecycle.recovery``)."""


def codes_with(disposition: Disposition, but: Container[ExitCode] = ()) -> tuple[int, ...]:
    """The codes of one disposition, ascending, but for some."""
    return tuple(sorted(int(row.code) for row in EXIT_CODES.values() if row.disposition is disposition and row.code not in but))


TERMINATION_PATH = "/dev/termination-log"
DIAGNOSE_COMMAND = ("trainwright", "diagnose")
"""The compiler's, with the name of a run behind it: what termination messages and alerts point to."""
MAX_BYTES = 4096
"""Kubernetes cuts a container's message there."""


class Cause(Contract):
    """Who failed first, and how."""

    rank: int | None = None
    kind: str
    message: str


class TerminationMessage(Report):
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
    see: str | None = None
    """The command that says more, for who reads this in ``kubectl describe``; None where nothing failed."""
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
    """The CamelCase word of a code."""
    return EXIT_CODES[code].reason
