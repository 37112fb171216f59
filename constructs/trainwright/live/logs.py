"""Which pods have the log that somebody asks for, and what is left where a pod is gone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from trainwright.live.case import Case, LivePod
from trainwright.live.ends import ends_of, first_failure
from trainwright.live.facts import facts_of
from trainwright.objects.fields import mapping, text


class Source(NamedTuple):
    """A container whose log is meant."""

    pod: str
    container: str
    previous: bool
    """Whether the log of the time before its last start is meant."""


def chosen(case: Case, pod: str | None, rank: int | None, ranks_per_pod: int, first: bool) -> list[LivePod]:
    """The pods that are meant: by label or name, by the rank that runs there, the one that failed first, or all of them."""
    if first:
        failed = [one for one in case.pods if one.phase == "Failed"] or case.replaced or case.pods
        end = first_failure(failed)
        return [one for one in case.every_pod if end and one.name == end.pod]
    if rank is not None:
        holders = [one for one in case.pods if one.role not in ("launcher", "head")]
        index = rank // max(ranks_per_pod, 1)
        return [one for number, one in enumerate(holders) if number == index]
    if pod is not None:
        return [one for one in case.pods if pod in (case.label(one.name), one.index, one.name)]
    return list(case.pods)


def sources(pod: LivePod) -> Iterator[Source]:
    """Of the containers of a pod that have run."""
    for _, one in pod.containers():
        again = bool(one.get("restartCount")) and "running" not in mapping(one, "/state")
        if again or "waiting" not in mapping(one, "/state"):
            yield Source(pod.name, text(one, "/name"), again)


def left_of(case: Case) -> list[str]:
    """What is known of pods whose logs are gone: their termination messages, and events of their ends."""
    lines: list[str] = []
    for end in (end for one in case.every_pod for end in ends_of(one) if end.code):
        word = end.meaning.reason if end.ours and end.meaning else end.reason
        lines.append(f"{end.pod}: ended with {end.code} {word}: {end.message}".rstrip(": "))
    told = facts_of(case).get("event", ())
    events = [fact.shows for fact in told if fact.fields.get("gone") or fact.fields["reason"] == "ExitedWithCode"]
    return [*lines, *events]
