"""What a merge does to a run: its class, and a sentence for those who train and do not operate clusters."""

from __future__ import annotations

from trainwright.project.record import RunRecord
from trainwright.review.model import Class

PLACE = ("cluster", "namespace", "checkpoints", "checkpoints.claim", "checkpoints.store")
"""Facts that say where a run looks for checkpoints."""


def class_of(before: RunRecord | None, after: RunRecord | None) -> Class:
    """By the records of the run where it is active; data at risk is seen in foundations."""
    if before is None:
        return Class.NEW
    if after is None:
        return Class.RETIRED
    if before.identity != after.identity or _moved(before, after):
        return Class.REPLACED
    return Class.HELD if after.hold is not None else Class.COSMETIC


def outcome(run: str, before: RunRecord | None, after: RunRecord | None) -> str:
    """What happens to the run."""
    if after is None:
        name = f"{run}-{before.identity}" if before else run
        return f"job {name} is deleted, with the steps since its last save; its checkpoints stay"
    if before is None:
        return f"{run}-{after.identity} starts on {_machines(after)}; {_checkpoints(after)}"
    if before.identity != after.identity or _moved(before, after):
        starts = f"{run}-{after.identity} starts on {_machines(after)}"
        return f"job {run}-{before.identity} is deleted and {starts}; {_start(before, after)}"
    if after.hold is not None:
        until = f" until {after.hold.until}" if after.hold.until else ""
        return f"{run}-{after.identity} stays as it is{until}: {after.hold.why}"
    if before.hold is not None:
        return f"{run}-{after.identity} goes on, and is no longer held"
    if before.manifests != after.manifests:
        return f"{run}-{after.identity} goes on; objects beside its pods change in place"
    return f"{run}-{after.identity} goes on; no object changes"


def _moved(before: RunRecord, after: RunRecord) -> bool:
    return any(before.facts.get(key) != after.facts.get(key) for key in ("cluster", "namespace")) if before.facts else False


def _machines(record: RunRecord) -> str:
    facts = record.facts
    count = f"{facts['gpus']} GPUs" if "gpus" in facts else f"{facts.get('world_size', '?')} CPU ranks"
    return f"{count} of {facts.get('cluster', 'a cluster')}"


def _checkpoints(record: RunRecord) -> str:
    lineage = record.facts.get("checkpoints.lineage")
    return f"resumes if lineage {lineage} has checkpoints, else starts at step 0" if lineage else "it has no checkpoints"


def _start(before: RunRecord, after: RunRecord) -> str:
    """From which step it goes on."""
    lineage, last = after.facts.get("checkpoints.lineage"), before.facts.get("checkpoints.lineage")
    if lineage is None:
        return "starts at step 0: it has no checkpoints"
    if after.facts.get("checkpoints.resume") == "never":
        return "starts at step 0: it says `resume: never`"
    if not before.facts or (lineage == last and _elsewhere(before, after)):
        return f"resumes only if lineage {lineage} is where it looks now, else starts at step 0"
    own = after.facts.get("workload") in ("script", "command")
    if lineage == last and own:
        return f"resumes in the directory of lineage {lineage}, if its program reads what is there"
    if lineage == last:
        return f"resumes from the last checkpoint of lineage {lineage}"
    if own:
        return f"it gets the empty checkpoint directory {lineage}, and starts at step 0; checkpoints of {last} stay"
    why = "the model, the data, the kind of optimizer or the format of the checkpoints is another one"
    return f"starts at step 0 in lineage {lineage}: {why}; checkpoints of {last} stay"


def _elsewhere(before: RunRecord, after: RunRecord) -> bool:
    return any(before.facts.get(key) != after.facts.get(key) for key in PLACE)
