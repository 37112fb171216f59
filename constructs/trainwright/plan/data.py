"""Where data that is fetched once is put, and how pods know that it is there."""

from __future__ import annotations

import posixpath
from pathlib import PurePosixPath

from trainwright.identity import short_hash
from trainwright.plan.model import DataPlan
from trainwright.run import ClaimMount, Preparation, Run


def plan_data(run: Run) -> tuple[DataPlan, ...]:
    """One entry for each path that the run prepares; a path outside every claim is a finding, and has none."""
    return tuple(plan for path, preparation in run.prepare.items() if (plan := _plan(run, path, preparation)))


def mount_of(run: Run, path: str) -> str | None:
    """The innermost mount that holds a path; None where there is none."""
    holding = [mount for mount in run.rank_mounts if PurePosixPath(path).is_relative_to(mount)]
    return max(holding, key=len, default=None)


def _plan(run: Run, path: str, preparation: Preparation) -> DataPlan | None:
    mount_path = mount_of(run, path)
    mount = run.rank_mounts[mount_path] if mount_path else None
    if mount_path is None or not isinstance(mount, ClaimMount):
        return None
    key = short_hash(preparation.content)
    below = posixpath.relpath(path, mount_path)
    return DataPlan(
        path=path,
        source=preparation.source,
        claim=mount.claim,
        mount=mount_path,
        folder=posixpath.normpath(posixpath.join(mount.sub_path or "", below, key)),
        marker=f"{path}/{key}.complete",
    )
