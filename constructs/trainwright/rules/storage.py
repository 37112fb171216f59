"""Rules on mounts, claims and checkpoints."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from pathlib import PurePosixPath

from trainwright.codes import found
from trainwright.findings import Finding, Where
from trainwright.locate import escape
from trainwright.manifest.volumes import RESERVED_PATHS
from trainwright.plan import Resolution
from trainwright.rules.context import Context
from trainwright.run import ClaimMount
from trainwright_trainer.contract.termination import TERMINATION_PATH


def checkpoint_volume(context: Context) -> Iterator[Finding]:
    run = context.run
    wanted = run.trainer or "mount" in run.checkpoints.model_fields_set
    if wanted and run.checkpoints.mount not in run.mounts:
        yield found(
            "TW230",
            context.locate.run("/mounts"),
            f"nothing is mounted at {run.checkpoints.mount}, where checkpoints go",
            f"add `mounts: {{{run.checkpoints.mount}: {{claim: NAME}}}}`",
        )


def paths(context: Context) -> Iterator[Finding]:
    """Mounts that hide what the plan mounts, or that are not written in their shortest form."""
    for path in context.run.mounts:
        yield from path_findings(path, context.locate.run(f"/mounts/{escape(path)}"))


def path_findings(path: str, where: Where) -> Iterator[Finding]:
    """What is wrong with one mount path."""
    if not path.startswith("/") or path.startswith("//") or posixpath.normpath(path) != path:
        yield found(
            "TW233", where, f"{path} is not a plain absolute path", "write it without '.', '..', doubled and closing slashes"
        )
        return
    for reserved in (*RESERVED_PATHS, TERMINATION_PATH):
        if PurePosixPath(reserved).is_relative_to(path) or PurePosixPath(path).is_relative_to(reserved):
            yield found("TW233", where, f"{path} is in the way of {reserved}, which the plan mounts", "mount it elsewhere")
            return


def claims(context: Context) -> Iterator[Finding]:
    """Claims that the cluster profile does not know, or that the pods cannot use together."""
    run = context.run
    namespace = context.cluster.namespaces.get(run.namespace)
    if namespace is None:
        return
    nodes = run.topology.needs().nodes
    for path, mount in run.mounts.items():
        if not isinstance(mount, ClaimMount):
            continue
        where = context.locate.run(f"/mounts/{escape(path)}")
        claim = namespace.claims.get(mount.claim)
        if claim is None:
            known = ", ".join(namespace.claims) or "none"
            yield found(
                "TW234",
                where,
                f"namespace {run.namespace} has no claim {mount.claim}",
                f"use one of: {known}; or add it to the cluster profile (managed: false if it is there already)",
            )
        elif claim.access == "ReadOnlyMany" and not mount.read_only:
            yield found(
                "TW235", where, f"claim {mount.claim} is ReadOnlyMany and is mounted for writing", "add `read_only: true`"
            )
        elif nodes > 1 and claim.access in ("ReadWriteOnce", "ReadWriteOncePod"):
            yield found(
                "TW235",
                where,
                f"claim {mount.claim} is {claim.access}: one node can mount it, the run has {nodes}",
                "use a ReadWriteMany claim",
            )


def grace_fits_notice(context: Context, resolution: Resolution) -> Iterator[Finding]:
    spot, grace = resolution.pool.spot, resolution.plan.grace
    if spot and grace.seconds > spot.notice.seconds:
        yield found(
            "TW236",
            context.locate.run("/checkpoints"),
            f"a final save needs {grace.seconds} s of grace, the spot pool {resolution.plan.world.pool} gives {spot.notice}",
            "save more often, use a faster claim, or another pool",
        )


RUN = (checkpoint_volume, paths, claims)
PLAN = (grace_fits_notice,)
