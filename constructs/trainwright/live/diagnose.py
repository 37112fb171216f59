"""Why a run waits or failed: the first row of causes whose evidence is all there, or that it is not known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from trainwright.findings import Where
from trainwright.live.case import Case
from trainwright.live.ends import meaning_of, next_pods
from trainwright.live.facts import common, facts_of
from trainwright.live.rows import Fact, Facts, Found, rows
from trainwright.live.snapshot import NODE, Object
from trainwright_trainer.contract import ExitCode

Locate = Callable[[str, str], Where | None]
"""The line of what a row says decides it, for pods of a role (:class:`trainwright.live.decides.Decider`)."""

_USED_UP = ("MaxFailedIndexesExceeded", "FailedIndexes", "BackoffLimitExceeded", "ReachedMaxRestarts")
_AT_ONCE = ("PodFailurePolicy", "FailJobSet")
_CODE_KEYS = {
    ExitCode.DIVERGED: "learning_rate", ExitCode.OUT_OF_MEMORY: "batch", ExitCode.OUT_OF_MEMORY_LATER: "batch",
    ExitCode.STORAGE: "checkpoints", ExitCode.NO_CHECKPOINT: "checkpoints", ExitCode.NO_PROGRESS: "checkpoints",
    ExitCode.INVALID_SPEC: "image", ExitCode.TOPOLOGY_MISMATCH: "image", ExitCode.HANG: "watchdog",
}  # fmt: skip
"""Exit code -> the key of a run that its remedy is about."""


class Diagnosis(NamedTuple):
    """What is said of a run."""

    case: Case
    cause: str
    """Name of the row; ``unknown`` where none has all of its evidence."""
    known: bool
    fine: bool
    says: str
    evidence: tuple[str, ...]
    """As it was found, each piece in a line."""
    where: Where | None
    """The line that decides it."""
    next: str
    facts: tuple[Fact, ...] = ()
    """What proves it."""

    @property
    def state(self) -> str:
        return "gone" if self.case.manifest is None else self.case.standing.phase

    def data(self) -> dict[str, Any]:
        """For machines."""
        return {
            "run": self.case.run, "object": f"{self.case.kind.kind}/{self.case.name}", "namespace": self.case.namespace,
            "state": self.state, "cause": self.cause, "known": self.known, "fine": self.fine, "says": self.says,
            "evidence": list(self.evidence), "decided_by": str(self.where) if self.where else None, "next": self.next,
        }  # fmt: skip


def diagnose(
    case: Case, written: Sequence[Object] = (), stated: Mapping[str, Any] | None = None, locate: Locate | None = None
) -> Diagnosis:
    """The cause of a run's state.

    Args:
        case: the run in a snapshot.
        written: its objects in ``dist/``, and those of its foundation.
        stated: facts of its record, such as the pool that its nodes are of.
        locate: finds lines in the project's files; None where no file is known.
    """
    return judge(case, facts_of(case, written), stated, locate)


def judge(case: Case, seen: Facts, stated: Mapping[str, Any] | None = None, locate: Locate | None = None) -> Diagnosis:
    """The cause that facts prove; arguments as of :func:`diagnose`."""
    phase = "gone" if case.manifest is None else case.standing.phase
    words = {**common(case), **_words(case, seen, phase, stated or {})}
    for row in rows():
        if phase in row.when or "any" in row.when:
            found = row.look(seen)
            if found:
                return _said(case, found, words, locate)
    return _unknown(case, seen, phase)


def _said(case: Case, found: Found, words: Mapping[str, str], locate: Locate | None) -> Diagnosis:
    row = found.row
    code, short = found.values.get("code", ""), found.values.get("short", "").partition(" ")[0]
    values = {
        **words,
        **_grammar(case, found.pods),
        **_of_code(code),
        "first_short": short,
        "plain_short": short if "/" not in short else "",  # devices come with the number of nodes
    }
    says = found.text(row.says, values)
    says = _tidy(says if says.endswith((".", "?")) else f"{says}.")
    role = next((pod.role for pod in case.every_pod if pod.name in found.pods), "")
    where = next((place for source in found.sources(values) if locate and (place := locate(source, role))), None)
    evidence = tuple(dict.fromkeys(fact.shows for fact in found.facts))
    advice = _tidy(found.text(row.next, values)).removesuffix(".")
    says = f"unknown: {says}" if row.unknown else says
    return Diagnosis(case, row.cause, not row.unknown, row.fine, says, evidence, where, advice, found.facts)


def _tidy(text: str) -> str:
    """Without the marks that an empty value leaves."""
    marks = (
        (" ()", ""), (" ;", ";"), (": .", "."), (": ;", ";"), ("..", "."), (".;", ";"), (" .", "."), (": \u2026", "…"),
        (".,", ","),
    )  # fmt: skip
    for double, one in marks:
        text = text.replace(double, one)
    text = text.strip()
    return text[:1].upper() + text[1:]


def _unknown(case: Case, seen: Facts, phase: str) -> Diagnosis:
    told = [fact for kind in ("event", "container", "condition") for fact in seen.get(kind, ())]
    warnings = [fact.shows for fact in told if fact.fields.get("type") == "Warning" or fact.kind == "container"]
    says = f"unknown: {case.kind.kind} {case.name} is {phase} ({case.standing.reason}), and nothing that is here proves why"
    if not case.snapshot.has(NODE):
        says += "; the snapshot has no nodes"
    evidence = tuple(dict.fromkeys(warnings))[:5]
    advice = f"`kubectl describe {case.kind.kind} {case.name} --namespace {case.namespace}`; events are kept for an hour"
    return Diagnosis(case, "unknown", False, False, f"{says}.", evidence, None, advice)


def _words(case: Case, seen: Facts, phase: str, stated: Mapping[str, Any]) -> dict[str, str]:
    """What follows, and what was before."""
    failed = [pod for pod in case.pods if pod.phase == "Failed"]
    made = next(iter(seen.get("made", ())), None)
    there = made.fields["there"] if made else ""
    return {
        "then": _then(case, phase, next_pods(case, failed)),
        "has": f"; {there} of {case.wanted} pods exist" if there and case.wanted else "",
        "run_pool": str(stated.get("node_pool", "")), "earlier": _earlier(seen), "rest": _rest(case),
        "also": "; it is retried by itself" if phase != "failed" and _retried(seen) else "",
    }  # fmt: skip


def _retried(seen: Facts) -> bool:
    return any(not fact.fields["permanent"] for fact in seen.get("end", ()))


def _rest(case: Case) -> str:
    """How the other pods are, where they do not depend on it."""
    done = [pod.name for pod in case.pods if pod.phase == "Succeeded"]
    runs = [pod.name for pod in case.pods if pod.state in ("ready", "running")]
    parts = [f"{case.named(done)} done" if done else "", f"{case.named(runs)} running" if runs else ""]
    return f" ({', '.join(filter(None, parts))})" if any(parts) else ""


def _earlier(seen: Facts) -> str:
    before = next(iter(seen.get("before", ())), None)
    if before is None:
        return ""
    word = f" ({before.fields['word']})" if before.fields["word"] else ""
    return f"; before, pod {before.fields['label']} ended with {before.fields['code']}{word}, and the run started again"


def _then(case: Case, phase: str, again: str) -> str:
    reason = case.standing.reason
    if phase == "failed":
        if any(reason.startswith(word) for word in _AT_ONCE):
            return "; a failure of this kind ends the run at once"
        return (
            "; its retries are used up, so that the run failed"
            if any(reason.startswith(word) for word in _USED_UP)
            else "; the run failed with it"
        )
    return f"; the next pods come {again}" if again else ""


def _of_code(code: str) -> dict[str, str]:
    known = meaning_of(int(code)) if code.isdigit() else None
    return {
        "word_of_code": f"{known.reason}: {known.meaning}" if known else "not a code of the trainer's",
        "remedy_of_code": known.remedy if known else "read the log of the program",
        "code_key": _CODE_KEYS.get(known.code, "workload") if known else "workload",
    }  # fmt: skip


def _grammar(case: Case, pods: Sequence[str]) -> dict[str, str]:
    one = len(pods) == 1
    running = [pod.name for pod in case.pods if pod.state in ("ready", "running") and pod.name not in pods]
    alone = "s" if len(running) == 1 else ""
    return {
        "others": f"; {case.named(running)} run{alone} and wait{alone} for it" if running else "",
        "pods": case.named(pods), "count": str(len(pods)), "s": "s" if one else "", "have": "has" if one else "have",
        "was": "was" if one else "were", "is": "is" if one else "are", "carry": "carries" if one else "carry",
    }  # fmt: skip


def lines(diagnosis: Diagnosis) -> list[str]:
    """As a person reads it."""
    case = diagnosis.case
    shown = [f"{case.run}  {diagnosis.state}  {case.kind.kind} {case.namespace}/{case.name}"]
    shown.append(f"  because       {diagnosis.says}")
    shown += [f"  {'evidence' if not number else '':13} {text}" for number, text in enumerate(diagnosis.evidence)]
    if diagnosis.where:
        shown.append(f"  decided by    {diagnosis.where}")
    shown.append(f"  next          {diagnosis.next}")
    return shown
