"""What a merge does to a run: its class, and a sentence for those who train and do not operate clusters."""

from __future__ import annotations

from trainwright.model import Fact
from trainwright.project.record import RunRecord
from trainwright.project.start import STORE, Start, anew, place_of, saved_by, start_of, stays
from trainwright.review.model import Class

NOT_KNOWN = "what it goes on from is not known: its file does not say who saves (checkpoints.by)"
PERHAPS = "goes on or begins anew, which is not known: nobody says who saves"
AGAIN = "starts again at step 0"
BY_HAND = "does what nobody knows: its file in dist/ is edited by hand"


def class_of(before: RunRecord | None, after: RunRecord | None) -> Class:
    """By the records of the run; data at risk is seen in foundations."""
    if before is None or before.state != "active":
        return Class.RESUMED if before and before.state == "paused" else Class.NEW
    if after is None or after.state != "active":
        return Class.PAUSED if after and after.state == "paused" else Class.RETIRED
    if before.identity != after.identity or _moved(before, after):
        return Class.REPLACED
    return Class.HELD if after.hold is not None else Class.COSMETIC


def training(before: RunRecord | None, after: RunRecord | None) -> str:
    """What that means for its steps, in a few words: does it lose what it has trained?"""
    if after is None or after.state != "active":
        return "waits" if after and after.state == "paused" else "ends"
    if before is None or before.state == "done":
        return "starts"
    if before.state == "paused":
        return _start(before, after)[0]
    if before.identity == after.identity and not _moved(before, after):
        return "goes on"
    return _start(before, after)[0]


def outcome(run: str, before: RunRecord | None, after: RunRecord | None) -> str:
    """What happens to the run."""
    if after is None or after.state != "active":
        if before is None or before.state != "active":
            return "nothing starts"
        back = "nothing starts until it is active again" if after and after.state == "paused" else "nothing starts in its place"
        return f"{_stop(run, before)}, and {back}; {stays(before.facts)}"
    name = f"{run}-{after.identity}"
    if before is None or before.state == "done":
        return f"{name} starts on {_machines(after)}; {_checkpoints(after)}"
    if before.state == "paused":
        again = "again" if before.identity == after.identity else f"in place of {run}-{before.identity}, which was paused,"
        return f"{name} starts {again} on {_machines(after)}; {_start(before, after)[1]}"
    if before.identity != after.identity or _moved(before, after):
        return f"{_stop(run, before)}; {name} starts on {_machines(after)}; {_start(before, after)[1]}"
    if after.hold is not None:
        until = f" until {after.hold.until}" if after.hold.until else ""
        return f"{name} stays as it is{until}: {after.hold.why}"
    if before.hold is not None:
        return f"{name} goes on, and is no longer held"
    if before.manifests != after.manifests:
        return f"{name} goes on, and no pod restarts: only what stands beside its pods changes"
    return f"{name} goes on; no object changes"


def by_hand(run: str, record: RunRecord) -> str:
    """What happens to a run whose objects change, though by its record they do not."""
    return f"what {run}-{record.identity} does is not known: its file in dist/ is edited by hand"


def _stop(run: str, record: RunRecord) -> str:
    """How the running job ends, and what it can still save."""
    job, facts = f"job {run}-{record.identity}", record.facts
    if not facts:
        return f"{job} is stopped"
    by = saved_by(facts)
    who, what = "it" if by == "trainer" else "its program", "end" if by == "unknown" else "save"
    return f"{job} is stopped: {who} has {facts.get('grace_seconds', 30)} s to {what}"


def _moved(before: RunRecord, after: RunRecord) -> bool:
    return any(before.facts.get(key) != after.facts.get(key) for key in ("cluster", "namespace")) if before.facts else False


def _machines(record: RunRecord) -> str:
    facts = record.facts
    count = f"{facts['gpus']} GPUs" if "gpus" in facts else f"{facts.get('world_size', '?')} CPU ranks"
    return f"{count} of {facts.get('cluster', 'a cluster')}"


def _checkpoints(record: RunRecord) -> str:
    facts, lineage = record.facts, record.facts.get("checkpoints.lineage")
    match saved_by(facts):
        case "own":
            return f"its program resumes if it reads checkpoints in {_directory(record)}{_told(record)}"
        case "unknown":
            return f"{NOT_KNOWN}{_told(record)}"
    return f"resumes if lineage {lineage} has checkpoints, else {anew(facts)}"


def _start(before: RunRecord, after: RunRecord) -> tuple[str, str]:
    """From which step it goes on: in a few words, and in a sentence."""
    perhaps, start = f"{anew(after.facts)}, unless its checkpoints are there", start_of(before.facts, after.facts)
    if saved_by(after.facts) == "own":
        return _own(before, after, start)
    match start:
        case Start.NOT_SAID:
            return PERHAPS, f"{NOT_KNOWN}{_given(before, after)}{_told(after)}"
        case Start.NEVER:
            return AGAIN, "it starts at step 0, since it says `resume: never`"
        case Start.UNKNOWN:
            return perhaps, _if_there(after)
        case Start.ELSEWHERE:
            return perhaps, _elsewhere(before, after)
        case Start.FOUND:
            lineage = after.facts["checkpoints.lineage"]
            return "goes on from its last checkpoint", f"it resumes from the last checkpoint of lineage {lineage}"
        case Start.OTHER:
            return f"{anew(after.facts)}, unless its new lineage has checkpoints", _other(before, after)


def _told(record: RunRecord) -> str:
    """Where a program is told to start from."""
    start = record.facts.get("resume_from")
    return f"; it is told to start from {start}" if start else ""


def _given(before: RunRecord, after: RunRecord) -> str:
    """What becomes of the directory that a program is told."""
    if "checkpoints" not in after.facts:
        return ""
    same = place_of(before.facts) == place_of(after.facts)
    return f"; its directory {_directory(after)} stays" if same else f"; it gets the directory {_directory(after)}"


def _own(before: RunRecord, after: RunRecord, start: Start) -> tuple[str, str]:
    """Of a program that saves by itself: it may look into any directory of its mount."""
    if start is Start.FOUND:
        finds = f"its program finds {_directory(after)} as before, and resumes if it reads checkpoints there"
        return "goes on, if its program reads its checkpoints", f"{finds}{_told(after)}"
    said = [f"its program resumes if it finds checkpoints in {place_of(after.facts)}"]
    if "checkpoints" in before.facts:
        said.append(f"what is in {place_of(before.facts)} stays, and nothing copies it")
    last, named = before.facts.get("checkpoints.lineage"), "checkpoints.lineage" in after.facts
    if start is Start.OTHER and last and named:
        said.append(f"to keep that directory, write `checkpoints: {{lineage: {last}}}` in its file before the merge")
    return "goes on, if its program finds its checkpoints", f"{'; '.join(said)}{_told(after)}"


def _directory(record: RunRecord) -> Fact | None:
    return record.facts.get("checkpoints")


def _if_there(after: RunRecord) -> str:
    lineage = after.facts["checkpoints.lineage"]
    return f"it resumes if lineage {lineage} has checkpoints where it looks now, else it {anew(after.facts)}"


def _elsewhere(before: RunRecord, after: RunRecord) -> str:
    """The same lineage in another place; what two clusters or namespaces call by one address may be one store."""
    old, new = place_of(before.facts), place_of(after.facts)
    if old.folder == new.folder and new.folder.startswith(STORE):
        return _if_there(after)
    stay = f"its checkpoints stay in {old}, and nothing copies them"
    return f"{stay}: it resumes if somebody copies them to {new} before it starts, else it {anew(after.facts)}"


def _other(before: RunRecord, after: RunRecord) -> str:
    """Another lineage: no record says whether it is new, or one that the run had before."""
    lineage, last, folder = after.facts["checkpoints.lineage"], before.facts.get("checkpoints.lineage"), _directory(after)
    stay = f"; checkpoints of {last} stay" if last else ""
    why = "the model, the data, the kind of optimizer or the format of the checkpoints is another one"
    return f"it {anew(after.facts)} in lineage {lineage}, unless {folder} has checkpoints: {why}{stay}"
