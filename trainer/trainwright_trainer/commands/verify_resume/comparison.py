"""Comparison of a run that was killed and resumed with the same run uninterrupted: commits, samples, losses, bits and weights.

The proof that comes of it is a table for a person, or a document for a machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from trainwright_trainer.checkpoint import CheckpointStore, CommitRecord
from trainwright_trainer.checkpoint.store import CommittedFiles
from trainwright_trainer.commands.verify_resume.trial import ObservedAttempt, Seen
from trainwright_trainer.contract.training import Training

if TYPE_CHECKING:
    from torch import Tensor

COMMIT = "newest commit"
SAMPLES = "samples"
LOSSES = "losses"
STATE = "weights and optimizer"
WEIGHTS = "weights"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was compared."""

    name: str
    holds: bool | None
    """None where it was not compared."""
    says: str
    """What was found, or why it was not compared."""
    step: int | None = None
    """The first that differs."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What was found, for each size at which the run was resumed."""

    identity: str
    engine: str
    steps: int
    every_steps: int
    """Between two commits."""
    processes: int
    killed_step: int
    """Last step that was logged before the ranks were killed."""
    committed_step: int
    """Newest commit at that moment."""
    seed: int
    resumed: Mapping[int, tuple[Check, ...]]
    """Ranks after the resume -> checks. Samples until the kill are the same for each of them."""

    @property
    def holds(self) -> bool:
        """Whether nothing that was compared differs; :attr:`not_compared` is what that leaves open."""
        return all(check.holds is not False for checks in self.resumed.values() for check in checks)

    @property
    def not_compared(self) -> dict[int, tuple[Check, ...]]:
        """Ranks -> checks that were not made there; sizes where all were made are left out."""
        open_ones = {size: tuple(check for check in checks if check.holds is None) for size, checks in self.resumed.items()}
        return {size: checks for size, checks in open_ones.items() if checks}

    @property
    def first_difference(self) -> tuple[int, Check] | None:
        """Ranks and check of what differs first, by step."""
        failed = [(ranks, check) for ranks, checks in self.resumed.items() for check in checks if check.holds is False]
        return min(failed, key=lambda found: math.inf if found[1].step is None else found[1].step, default=None)


def compare_commit(committed: int, attempt: ObservedAttempt) -> Check:
    """No step that was committed is done again."""
    if attempt.restored_step == committed:
        return Check(COMMIT, True, f"step {committed}")
    began = "from the start" if attempt.restored_step is None else f"from step {attempt.restored_step}"
    return Check(COMMIT, False, f"step {committed} was committed, and the run went on {began}", (attempt.restored_step or 0) + 1)


def compare_samples(whole: ObservedAttempt, killed: ObservedAttempt, resumed: ObservedAttempt, steps: int) -> Check:
    """Each step from the same samples with the same contents: those before the kill, and all after the resume."""
    first = (resumed.restored_step or 0) + 1
    before = sorted({*range(1, first), *killed.samples})
    attempts = ((killed, "before the kill", before), (resumed, "after the resume", range(first, steps + 1)))
    for attempt, when, told in attempts:
        for step in told:
            difference = _difference(whole.samples.get(step), attempt.samples.get(step), when)
            if difference is not None:
                return Check(SAMPLES, False, f"step {step}: {difference}", step)
    every = sum(len(whole.samples[step]) for step in range(1, steps + 1))
    return Check(SAMPLES, True, f"the same ids and contents in every step ({every:,} samples)")


def _difference(wanted: tuple[Seen, ...] | None, found: tuple[Seen, ...] | None, when: str) -> str | None:
    if wanted is None or found is None:
        return f"not every rank told of it {'uninterrupted' if wanted is None else when}"
    if wanted == found:
        return None
    if len(wanted) != len(found):
        return f"{len(wanted)} samples uninterrupted and {len(found)} {when}"
    number, (one, other) = next(pair for pair in enumerate(zip(wanted, found, strict=True)) if pair[1][0] != pair[1][1])
    where = f"sample {number + 1} of {len(wanted)}"
    if one.id != other.id or one.position != other.position:
        wanted_there = f"id {one.id} at position {one.position} uninterrupted"
        return f"{where} is {wanted_there}, and id {other.id} at position {other.position} {when}"
    return f"{where}, id {one.id}, has other contents {when}"


def compare_losses(whole: ObservedAttempt, resumed: ObservedAttempt, steps: int, tolerance: float) -> Check:
    """Each step's loss after the resume within a relative tolerance; 0 asks for the same digits as logged."""
    worst, worst_step = 0.0, None
    for step in range((resumed.restored_step or 0) + 1, steps + 1):
        one, other = whole.losses.get(step), resumed.losses.get(step)
        if one is None or other is None:
            return Check(LOSSES, False, f"step {step} was not logged", step)
        distance = _distance(one, other)
        if distance > tolerance:
            allowed = f", {tolerance:g} is allowed" if tolerance else ""
            return Check(LOSSES, False, f"step {step}: {one:g} and {other:g}, {distance:.1e} apart{allowed}", step)
        if distance > worst:
            worst, worst_step = distance, step
    if worst_step is None:
        return Check(LOSSES, True, "the same to the six digits that are logged")
    return Check(LOSSES, True, f"at most {worst:.1e} apart (step {worst_step}), {tolerance:g} is allowed")


def _distance(one: float, other: float) -> float:
    """Relative; infinite where one of the two is no number."""
    if not (math.isfinite(one) and math.isfinite(other)):
        return math.inf
    return abs(one - other) / max(abs(one), abs(other), 1e-30)


def compare_bits(whole: ObservedAttempt, resumed: ObservedAttempt) -> Check:
    """Every file of the last checkpoints: weights, optimizer, random states."""
    one, other = whole.newest, resumed.newest
    if one is None or other is None or one.step != other.step:
        return unequal_ends(STATE, one, other)
    wanted, found = ({file.name: file for file in record.files} for record in (one, other))
    different = sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))
    if different:
        names = ", ".join(different[:3]) + (", …" if len(different) > 3 else "")
        return Check(STATE, False, f"other bits after step {one.step} in {names}", one.step)
    return Check(STATE, True, f"the same bits after step {one.step}: {len(wanted)} files, {one.size:,} bytes")


def unequal_ends(name: str, one: CommitRecord | None, other: CommitRecord | None) -> Check:
    """The check of that name fails: there are no two last commits of one step."""
    ends = [record.step if record else 0 for record in (one, other)]
    says = f"the last commit is of step {ends[0]} uninterrupted and {ends[1]} after the resume"
    return Check(name, False, says, min(ends) + 1)


def failed_checks(names: Iterable[str], reason: str, step: int | None) -> tuple[Check, ...]:
    """For a resume that did not reach its end."""
    first, *rest = names
    return (Check(first, False, reason, step), *(Check(name, None, "the resume did not get so far") for name in rest))


def compare_weights(whole: ObservedAttempt, resumed: ObservedAttempt, parameters: frozenset[str], tolerance: float) -> Check:
    """Both at their ends, as one vector each: their distance, as a share of the uninterrupted run's way since its first commit.

    Args:
        whole: Uninterrupted.
        resumed: What was killed and resumed.
        parameters: Names of what is compared; the statistics of batch norm differ with the micro batches of a rank.
        tolerance: Largest share. A run that stayed at that first commit is 1 apart.
    """
    one, other = whole.newest, resumed.newest
    if one is None or other is None or one.step != other.step:
        return unequal_ends(WEIGHTS, one, other)
    first = whole.commits[-1]
    end = {name: tensor for name, tensor in _weights(whole, one) if name in parameters}
    way, apart = _vector_distance(end, _weights(whole, first)), _vector_distance(end, _weights(resumed, other))
    where = f"from step {first.step} to step {one.step}"
    if way == 0:
        return Check(WEIGHTS, None, f"those of the uninterrupted run do not move {where}")
    share = apart / way if math.isfinite(apart) and math.isfinite(way) else math.inf
    says = f"{share:.1e} of their way {where} apart, {tolerance:g} is allowed"
    return Check(WEIGHTS, share <= tolerance, says, None if share <= tolerance else one.step)


def parameter_names(training: Training) -> frozenset[str]:
    """Of the run's model, a tied one under its first name. Raises :class:`InvalidRunError` where it cannot be built."""
    from trainwright_trainer.model.build import build_model
    from trainwright_trainer.model.initialise import skeleton

    module = skeleton(lambda: build_model(training.model, training.task, training.data))
    return frozenset(name for name, _ in module.named_parameters())


def _weights(attempt: ObservedAttempt, record: CommitRecord) -> Iterator[tuple[str, Tensor]]:
    from trainwright_trainer.commands.export.run import full_weights

    return full_weights(CommittedFiles(CheckpointStore(attempt.checkpoints), record))


def _vector_distance(end: Mapping[str, Tensor], weights: Iterator[tuple[str, Tensor]]) -> float:
    """Infinite where one of them is not there."""
    squares, found = 0.0, set()
    for name, tensor in weights:
        if name in end:
            squares += float((end[name].detach().double() - tensor.detach().double()).square().sum())
            found.add(name)
    return math.sqrt(squares) if found == end.keys() and math.isfinite(squares) else math.inf


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
