"""How pods of a run ended, which of them was the first to fail, and when the next ones come."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from pydantic import ValidationError

from trainwright.live.case import Case, LivePod
from trainwright.live.snapshot import time_of
from trainwright.manifest.kinds import GroupKind
from trainwright.objects.fields import mapping, text, whole
from trainwright.plan.incident import delay
from trainwright_trainer.contract import EXIT_CODES, ExitCode, TerminationMessage
from trainwright_trainer.contract.exit_codes import Disposition, ExitCodeEntry

_OF_PEER = re.compile(r"node (?P<node>\d+) \((?P<host>[^)]*)\) ended with (?P<code>\d+): (?P<message>.*)", re.DOTALL)
"""How a pod that ends with 202 says whom it lost, and why that one ended (the supervisor's peers)."""

_COUNTS = ("job-index-failure-count", "job-index-ignored-failure-count")
"""Annotations of a pod: failures of its index before it (kubernetes, pkg/controller/job/backoff_utils.go)."""


def meaning_of(code: int) -> ExitCodeEntry | None:
    """What the contract says of an exit code; None where it is none of the trainer's."""
    return next((entry for known, entry in EXIT_CODES.items() if known == code), None)


class End(NamedTuple):
    """The end of a container of a pod, or of one that only another pod's message tells of."""

    pod: str
    node: str
    container: str
    code: int
    reason: str
    """Kubelet's: ``Error``, ``OOMKilled``."""
    message: str
    """What its cause says, or the text that it left; empty where it left none."""
    said: TerminationMessage | None
    at: datetime | None
    told_by: str = ""
    """The pod whose message tells of it, where its own is gone."""
    number: str = ""

    @property
    def ours(self) -> bool:
        """Whether the trainer or the supervisor wrote the message: then the code has the contract's meaning."""
        return (self.said is not None or bool(self.told_by)) and self.meaning is not None

    @property
    def meaning(self) -> ExitCodeEntry | None:
        return meaning_of(self.code)

    @property
    def consequence(self) -> bool:
        """Whether it ended because another one did."""
        cause = self.said.cause if self.said else None
        of_another = bool(cause and cause.kind == "ToldToEnd" and re.search(r"node \d+ \(", cause.message))
        return self.ours and (self.code == ExitCode.PEER_LOST or of_another)


def ends_of(pod: LivePod) -> Iterator[End]:
    """Of its containers that failed: now, or before they were started again."""
    for _, container in pod.containers():
        ended = mapping(container, "/state/terminated") or mapping(container, "/lastState/terminated")
        code = whole(ended, "/exitCode")
        if code is not None and (code or pod.phase == "Succeeded"):
            message = text(ended, "/message").strip()
            said = _read(message)
            if said:
                message = said.cause.message if said.cause else ""
            yield End(
                pod.name,
                pod.node,
                text(container, "/name"),
                code,
                text(ended, "/reason"),
                message,
                said,
                time_of(text(ended, "/finishedAt")),
                number=pod.index,
            )


def _read(message: str) -> TerminationMessage | None:
    """What a trainer wrote; fields that a newer one has beside ours are passed over."""
    if not message.startswith("{"):
        return None
    try:
        known = {key: value for key, value in json.loads(message).items() if key in TerminationMessage.model_fields}
        return TerminationMessage.model_validate(known)
    except (ValueError, ValidationError):
        return None


def first_failure(pods: Sequence[LivePod]) -> End | None:
    """The end that the others followed; None where no pod failed.

    What ends a run for good comes before what is tried again, as a peer may be seen to leave before it has written why; else the
    earliest. Where only peers are left, their messages tell who it was.
    """
    ends = [end for pod in pods for end in ends_of(pod) if end.code]
    own = [end for end in ends if not end.consequence]
    told = [_told(end) for end in ends if end.consequence]
    return min(own or [end for end in told if end] or ends, key=_rank, default=None)


def _rank(end: End) -> tuple[bool, int, str, str]:
    permanent = bool(end.ours and end.meaning and end.meaning.disposition is Disposition.PERMANENT)
    # who gave up waiting did so for a pod that ended otherwise; node 0 says who did not come, the others why they did not
    follows = (end.code in (ExitCode.PREEMPTED_SAVED, ExitCode.PEERS_NEVER_CAME)) + ("did not join" in end.message)
    return not permanent, follows if end.ours else 0, end.at.isoformat() if end.at else "", end.pod


def _told(end: End) -> End | None:
    match = _OF_PEER.search(end.message)
    if not match:
        return None
    return end._replace(
        pod=match["host"],
        node="",
        code=int(match["code"]),
        message=match["message"],
        told_by=end.pod,
        number=match["node"],
        said=None,
    )


def next_pods(case: Case, failed: Sequence[LivePod]) -> str:
    """When the Job controller makes the next pods of those that failed; empty where that is not its doing.

    Where a Job counts failures per index, they stand in annotations of its pods. Else they are in the controller's memory.
    """
    jobs = {str(one["metadata"]["name"]): one for one in (case.manifest, *case.children) if one and _is_job(one)}
    waits: list[float] = []
    exact = True
    for pod in failed:
        owner = jobs.get(
            next((str(o["name"]) for o in pod.manifest["metadata"].get("ownerReferences", ()) if o["kind"] == "Job"), "")
        )
        ends = [end.at for end in ends_of(pod) if end.at]
        if owner is None or not ends:
            continue
        per_index = mapping(owner, "/spec").get("backoffLimitPerIndex") is not None
        exact = exact and per_index
        before = _failures_before(pod) if per_index else max(len(failed) - 1, 0)
        waits.append((max(ends) + timedelta(seconds=delay(before + 1)) - case.snapshot.now).total_seconds())
    if not waits:
        return ""
    least, most = max(0, round(min(waits))), max(0, round(max(waits)))
    if not exact:
        return f"in {least} s or later (the Job's back-off grows with each failure, and its count is in the controller's memory)"
    return f"in about {most} s (back-off)" if most else "any moment (their back-off is over)"


def _failures_before(pod: LivePod) -> int:
    annotations: dict[str, Any] = pod.manifest["metadata"].get("annotations") or {}
    return sum(int(value) for key, value in annotations.items() if key.rpartition("/")[2] in _COUNTS and str(value).isdigit())


def _is_job(one: Any) -> bool:
    return GroupKind.of(one) == GroupKind("batch", "Job")
