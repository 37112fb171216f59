"""A proof as a table for a person, and as a document for a machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict

from trainwright_trainer.commands.verify_resume.comparison import Check, Proof

_MARKS = {True: "yes", False: "NO", None: "-"}


def report(proof: Proof) -> str:
    """What was done, a line for each check, and the verdict."""
    lines = [
        f"{proof.identity}: {proof.engine}, {_ranks(proof.processes)}, {proof.steps} steps, a commit every {proof.every_steps}",
        f"  killed   all of {_ranks(proof.processes)} by SIGKILL after step {proof.killed_step}; newest commit: step "
        f"{proof.committed_step} (seed {proof.seed})",
        *(f"  resumed  at {_ranks(size)}" for size in proof.resumed),
        "",
    ]
    rows = [(size, check) for size, checks in proof.resumed.items() for check in checks]
    width = max(len(check.name) for _, check in rows)
    lines += [f"  {_ranks(size):<8}  {check.name:<{width}}  {_MARKS[check.holds]:<4} {_says(check)}" for size, check in rows]
    return "\n".join([*lines, "", verdict(proof)])


def document(proof: Proof) -> dict[str, object]:
    """All of it for JSON, with the verdict and what it leaves open."""
    left_open = {size: [check.name for check in checks] for size, checks in proof.not_compared.items()}
    return {**asdict(proof), "proven": proof.holds, "not_compared": left_open, "verdict": verdict(proof)}


def verdict(proof: Proof) -> str:
    """One sentence: the first that differs, or what is proven and what was not compared."""
    difference = proof.first_difference
    if difference is None:
        whole = [f"at {_ranks(size)}" for size in proof.resumed if size not in proof.not_compared]
        partly = [_partly(size, checks) for size, checks in proof.resumed.items() if size in proof.not_compared]
        return "proven " + "; ".join([*([_listed(whole)] if whole else []), *partly])
    size, check = difference
    where = "" if check.step is None else f", from step {check.step} on"
    return f"NOT PROVEN at {_ranks(size)}{where}: {check.name}: {check.says}"


def _partly(size: int, checks: Sequence[Check]) -> str:
    """A size at which something was not compared."""
    names: dict[str, list[str]] = {}
    for check in checks:
        if check.holds is None:
            names.setdefault(check.says, []).append(check.name)
    left_open = "; ".join(f"{_listed(each)}: {reason}" for reason, each in names.items())
    return f"at {_ranks(size)}: {_listed(check.name for check in checks if check.holds)} only ({left_open})"


def _listed(words: Iterable[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def _says(check: Check) -> str:
    return f"not compared: {check.says}" if check.holds is None else check.says


def _ranks(number: int) -> str:
    return f"{number} rank{'s' if number > 1 else ''}"
