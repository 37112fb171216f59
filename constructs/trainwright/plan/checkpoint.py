"""Where checkpoints live, what one weighs, and what grace period a final save needs: as far as it is known who saves."""

from __future__ import annotations

from math import ceil
from pathlib import PurePosixPath

from trainwright.cluster import Cluster
from trainwright.command.reading import read
from trainwright.command.saving import SAVING_OPTIONS, directories
from trainwright.findings import CompileError
from trainwright.findings.codes import found
from trainwright.findings.locate import Locator, escape
from trainwright.identity import short_hash
from trainwright.plan.estimate.memory import saves_in_background
from trainwright.plan.model import CheckpointPlan, GracePlan
from trainwright.run import BoostingWorkload, ClaimMount, CommandWorkload, Run, ScriptWorkload
from trainwright.run.life import DEFAULT_GRACE_SECONDS
from trainwright.units import Duration
from trainwright_trainer.contract.estimate.memory import checkpoint_bytes

DEFAULT_EVERY = Duration(1800)
MINIMUM_GRACE_SECONDS = DEFAULT_GRACE_SECONDS
GRACE_MARGIN_SECONDS = 30
"""Time for agreement, commit and the end of the processes, on top of the save itself."""


def lineage(run: Run) -> str | None:
    """Hash of model, optimizer kind and data: what a checkpoint must share with the run that resumes from it.

    It also hashes the initial weights, the data that is fetched, and an engine that writes files of its own. What a run leaves
    out is left out here, so that a new field moves nobody's lineage.
    """
    work = run.workload
    fetched = {path: each.content for path, each in run.prepare.items()}
    prepared: dict[str, object] = {"prepare": fetched} if fetched else {}
    if run.initializer:
        prepared["initializer"] = {part: one.storage_uri for part, one in run.initializer.stated.items()}
    if isinstance(work, BoostingWorkload):
        kept = run.model_dump(mode="json", include={"workload": {"booster", "data", "seed"}}, exclude_none=True)
        return short_hash({**kept, **prepared})
    if run.trainer is None:
        return None
    kept = run.model_dump(mode="json", include={"workload": {"task", "model", "data"}})["workload"]
    started = {"initial_weights": run.trainer.initial_weights} if run.trainer.initial_weights else {}
    form = run.topology.checkpoint_format
    engine = {} if form == "torch" else {"engine": form}
    return short_hash({**kept, **started, **engine, **prepared, "optimizer": run.trainer.optimizer.kind})


def plan_checkpoint(run: Run, cluster: Cluster, name: str, locate: Locator) -> CheckpointPlan | None:
    """The run's own directory on its checkpoint claim or object store; None where the run has neither. Only of our trainer is it
    known how often it saves, and what.

    Raises:
        CompileError: where the mount cannot keep checkpoints.
    """
    claim = None if run.checkpoints.store else _claim(run, locate)
    if claim is None and run.checkpoints.store is None:
        return None
    line = lineage(run)
    key = line or run.checkpoints.lineage or name.rpartition("-")[2]
    directory = f"{run.checkpoints.root}/{run.run}/{key}"
    reason = (
        "model, optimizer and data decide it: an edit of nodes, batch or schedule resumes"
        if line
        else "opaque work: each identity its own"
    )
    if run.checkpoints.lineage:
        reason = "as named: an edit of image or code keeps the directory"
    ours = run.saved_by == "trainer"
    size, (every, seconds, steps) = _size(run), _every(run) if ours else (None, None, None)
    return CheckpointPlan(
        mount=None if run.checkpoints.store else run.checkpoints.mount,
        claim=claim,
        directory=directory,
        saves_to=named_in_command(run) or directory,
        lineage=key,
        lineage_reason=reason,
        every=every,
        every_seconds=seconds,
        every_steps=steps,
        keep=run.checkpoints.keep if run.saved_by in ("trainer", "script") else None,
        size=size,
        save_seconds=None if size is None else round(size / _bytes_per_second(run, cluster, claim), 1),
        background=saves_in_background(run),
    )


def directory_source(run: Run) -> tuple[str, str]:
    """What decides the directory, with the reason; the last part of what is stated, since it lies below the others."""
    if run.checkpoints.lineage:
        return "run:/checkpoints/lineage", "the run's own checkpoint directory, called after its lineage"
    stated = next((field for field in ("store", "mount") if field in run.checkpoints.model_fields_set), None)
    return f"run:/checkpoints/{stated}" if stated else "trainwright", "this run's own checkpoint directory"


def named_in_command(run: Run) -> str | None:
    """The directory below the mount that a program which saves by itself is told in its command, if there is one of them."""
    told = [path for path, option in told_in_command(run).items()
            if option in SAVING_OPTIONS and PurePosixPath(path).is_relative_to(run.checkpoints.root)]
    return told[0] if run.saved_by == "own" and len(told) == 1 else None


def told_in_command(run: Run) -> dict[str, str]:
    """Directories that a program is told in its command -> the option; one that can only mean a place to save to comes first."""
    work = run.workload
    if not isinstance(work, ScriptWorkload | CommandWorkload):
        return {}
    env = {name: value for name, value in run.env.items() if isinstance(value, str)}
    command = read(tuple(work.words if isinstance(work, CommandWorkload) else work.command))
    told = sorted(directories(command, env), key=lambda pair: pair[0] in SAVING_OPTIONS)
    return {path: option for option, path in told}


def _claim(run: Run, locate: Locator) -> str | None:
    """The claim that is mounted for checkpoints; None if there is none, or if nobody says that what is there is for them."""
    path = run.checkpoints.mount
    mount = run.rank_mounts.get(path)
    if mount is None or (path in run.prepare and not run.needs_checkpoints):
        return None
    if not isinstance(mount, ClaimMount) or mount.read_only:
        if not run.needs_checkpoints:
            return None
        message = f"checkpoints go to {path}, which is not a writable claim"
        fix = f"write `{path}: {{claim: NAME}}` without read_only"
        raise CompileError([found("TW231", locate.run(f"/mounts/{escape(path)}"), message, fix)])
    return mount.claim


def _bytes_per_second(run: Run, cluster: Cluster, name: str | None) -> int:
    """Write speed of all pods together; an object store counts as a claim without a stated speed."""
    namespace = cluster.namespaces.get(run.namespace)
    claim = namespace.claims.get(name) if namespace and name else None
    pods = len(run.topology.sharding().layout.writers(run.topology.needs().processes_per_node))  # they write side by side
    return (claim.write_mebibytes_per_second if claim else 200) * 2**20 * pods


def _size(run: Run) -> int | None:
    work = run.trainer
    if work is None or work.model.parameters is None:
        return None
    return checkpoint_bytes(work.model.parameters, work.optimizer)


def _every(run: Run) -> tuple[str, float | None, int | None]:
    """The interval between saves in words, in seconds and in steps; a default in time if the run states none."""
    asked = run.checkpoints
    steps, time = asked.every_steps, asked.every if asked.every or asked.every_steps else DEFAULT_EVERY
    words = [f"every {steps} steps"] if steps else []
    words += [f"every {time}"] if time else []
    return " and ".join(words), time.seconds if time else None, steps


def plan_grace(run: Run, checkpoint: CheckpointPlan | None) -> GracePlan:
    """Twice the expected save, since a volume is slowest when every run saves at once, and a margin to end in order. Only the
    run itself knows how long its own program takes to end.
    """
    asked = run.grace
    if asked is not None:
        return GracePlan(asked.seconds, save_seconds=max(1, asked.seconds - GRACE_MARGIN_SECONDS), reason="as asked")
    save = 15 if checkpoint is None or checkpoint.save_seconds is None else ceil(2 * checkpoint.save_seconds)
    seconds = max(MINIMUM_GRACE_SECONDS, save + GRACE_MARGIN_SECONDS)
    if run.saved_by != "trainer":
        return GracePlan(seconds, seconds - GRACE_MARGIN_SECONDS, "the default: only the run's `grace` can say how long it needs")
    reason = f"twice the expected save, and {GRACE_MARGIN_SECONDS} s to agree and end; at least {MINIMUM_GRACE_SECONDS} s"
    return GracePlan(seconds=seconds, save_seconds=seconds - GRACE_MARGIN_SECONDS, reason=reason)
