"""Report of a pod's end: the termination message, a last log line, and the exit code, which always agree."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from trainwright_trainer.contract.exit_codes import TERMINATION_PATH, Cause, ExitCode, TerminationMessage, reason_of
from trainwright_trainer.contract.layout import TERMINATION_PATH_ENV
from trainwright_trainer.contract.spec import RunSpec
from trainwright_trainer.observe.log import get_log
from trainwright_trainer.supervisor.place import host_name

UNKNOWN = "unknown"


class Report:
    """Filled in as the pod learns about itself, so that whatever ends it finds the most there is to say."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._path = _message_path(environ)
        self.spec: RunSpec | None = None
        self.node: int | None = None
        self.attempt: str | None = None
        self.step: int | None = None
        self.committed_step: int | None = None
        self.attempts: int | None = None
        self.goodput: float | None = None

    def write(self, code: ExitCode, cause: Cause | None = None) -> int:
        """Write the message and log it. Gives the exit code; a path that cannot be written changes nothing about it."""
        message = TerminationMessage(
            run=self.spec.run if self.spec else UNKNOWN,
            identity=self.spec.identity if self.spec else UNKNOWN,
            attempt=self.attempt or UNKNOWN,
            code=int(code),
            reason=reason_of(code),
            node_index=self.node,
            host=host_name(self._environ),
            step=self.step,
            committed_step=self.committed_step,
            attempts=self.attempts,
            goodput=self.goodput,
            cause=cause,
        )
        if self._path is not None:
            with suppress(OSError):
                self._path.write_bytes(message.to_json().encode())
        with suppress(OSError, ValueError):  # standard output may be gone
            _log_end(message)
        return int(code)


def _log_end(message: TerminationMessage) -> None:
    level = {ExitCode.DONE: "info", ExitCode.PREEMPTED_SAVED: "warning", ExitCode.PREEMPTED_NOT_SAVED: "warning"}
    facts: dict[str, object] = {"code": message.code, "reason": message.reason}
    facts |= {"step": message.step, "committed_step": message.committed_step, "goodput": message.goodput}
    if message.cause is not None:
        facts |= {"cause": message.cause.message, "cause_kind": message.cause.kind, "cause_rank": message.cause.rank}
    getattr(get_log(), level.get(ExitCode(message.code), "error"))("pod_ended", **facts)


def _message_path(environ: Mapping[str, str]) -> Path | None:
    """Where the message goes. The kubelet mounts the usual file beforehand; outside a pod nothing is put into ``/dev``."""
    if given := environ.get(TERMINATION_PATH_ENV):
        return Path(given)
    usual = Path(TERMINATION_PATH)
    return usual if usual.exists() else None


