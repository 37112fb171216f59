"""The cluster as a side of a review: for each run that is there, the record and the file that it was applied from."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path, PurePath

from trainwright.apply.inventory import FOUNDATION, Inventory
from trainwright.apply.plan import Live
from trainwright.operators.operator import makes_pods
from trainwright.project.built import SUFFIX, foundation_file, run_file
from trainwright.project.record import RunRecord, as_written, record_text
from trainwright.project.start import place_of
from trainwright.review.side import READ, Side, SideError, folder_side, git_side, mark


def running(inventory: Inventory, live: Live) -> dict[str, str]:
    """Run -> the name of its workload that was made and is there."""
    found = {}
    for run, made in inventory.made.items():
        for entry in made.entries:
            there = live.get(entry.key(inventory.namespace))
            if run and there and makes_pods(there) and "deletionTimestamp" not in there["metadata"] and inventory.owns(there):
                found[run] = entry.name
    return found


def before(root: Path, inventory: Inventory, live: Live, shown: str) -> Side:
    """What is in the cluster, from the commits that it was applied from.

    Of a commit that this clone does not have, only the names of workloads are known.
    """
    contents: dict[str, bytes] = {}
    sides: dict[str, Side | None] = {}
    there = running(inventory, live)
    for owner, made in inventory.made.items():
        if made.commit not in sides:
            sides[made.commit] = _side(root, made.commit)
        side = sides[made.commit]
        if owner == FOUNDATION:
            contents |= side.read(_foundation(inventory)) if side else {}
        elif owner in there:
            contents |= _run(side, inventory, owner, there[owner])
    return Side(shown, {path: mark(data) for path, data in contents.items()}, root, None, contents)


def after(root: Path, inventory: Inventory, runs: Collection[str], shown: str, beside: Side) -> Side:
    """What is to be there, from the files of the folder: the foundation, some runs, and the records of others that were made.

    What the profile says is left out where nothing is known of what it said before: all of it would be new.
    """
    side = folder_side(root, shown)
    profile, *foundation = _foundation(inventory)
    paths = foundation + ([profile] if profile in beside.marks else [])
    paths += [path for run in runs for path in _paths(inventory, run)]
    contents = side.read([*paths, *(_paths(inventory, run)[0] for run in inventory.made if run)])
    return Side(shown, {path: side.marks[path] for path in contents}, root, None, contents)


def only(side: Side, runs: Collection[str]) -> Side:
    """A side without what it has of other runs."""
    others = {path for path in side.marks if (run := PurePath(path).name.split(".")[0]) not in runs and _is_of(path, run)}
    return replace(side, marks={path: one for path, one in side.marks.items() if path not in others})


def _is_of(path: str, run: str) -> bool:
    return path == f"{READ[0]}/{run}.yaml" or path.endswith(f"/runs/{run}{SUFFIX}")


def in_the_way(base: Side, head: Side, starting: Collection[str]) -> dict[str, list[str]]:
    """Run that starts -> other runs of the base that save where it would."""
    there = {run: record for path in base.marks if (run := _run_of(path)) and (record := _record(base, run))}
    found: dict[str, list[str]] = {}
    for run in starting:
        own = _record(head, run)
        place = place_of(own.facts) if own and "checkpoints" in own.facts else None
        found[run] = [other for other, one in there.items() if other != run and place and place_of(one.facts) == place]
    return found


def _run_of(path: str) -> str:
    parts = PurePath(path)
    return parts.stem if parts.parent.as_posix() == READ[0] else ""


def _record(side: Side, run: str) -> RunRecord | None:
    text = side.text(f"{READ[0]}/{run}.yaml")
    return as_written(RunRecord, text) if text else None


def _side(root: Path, commit: str) -> Side | None:
    try:
        return git_side(root, commit) if commit else None
    except SideError:
        return None


def _run(side: Side | None, inventory: Inventory, run: str, workload: str) -> Mapping[str, bytes]:
    """The record and the file by which a run's workload was made; what the name says, where they are of another one."""
    identity = workload.removeprefix(f"{run}-")
    contents = side.read(_paths(inventory, run)) if side else {}
    record = contents.get(f"{READ[0]}/{run}.yaml", b"").decode("utf-8", "replace")
    if f'identity: "{identity}"' in record and 'state: "active"' in record:
        return contents
    return {f"{READ[0]}/{run}.yaml": record_text(RunRecord(identity=identity, file="")).encode()}


def _paths(inventory: Inventory, run: str) -> tuple[str, str]:
    return f"{READ[0]}/{run}.yaml", f"{READ[1]}/{run_file(inventory.cluster, inventory.namespace, run)}"


def _foundation(inventory: Inventory) -> tuple[str, ...]:
    cluster, namespace = inventory.cluster, inventory.namespace
    return (
        f"{READ[0]}/clusters/{cluster}.yaml", f"{READ[0]}/foundation/{cluster}/{namespace}.yaml",
        f"{READ[1]}/{foundation_file(f'{cluster}/{namespace}')}",
    )  # fmt: skip
