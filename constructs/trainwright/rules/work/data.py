"""Rules on data that is fetched before a run starts."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from pathlib import PurePosixPath

from trainwright.findings import Finding
from trainwright.findings.codes import found
from trainwright.findings.context import Context
from trainwright.findings.locate import escape
from trainwright.handshake import Binding
from trainwright.plan import Resolution, answer
from trainwright.plan.data import mount_of
from trainwright.rules.cluster.profile import image_findings
from trainwright.run import ClaimMount, EphemeralMount, Mount, ScratchMount


def places(context: Context) -> Iterator[Finding]:
    """Data goes into a claim, and nothing else goes into the data."""
    run = context.run
    for path in run.prepare:
        where = context.locate.run(f"/prepare/{escape(path)}")
        if path.startswith("//") or posixpath.normpath(path) != path:
            fix = "write it without '.', '..', double slashes, or a slash at the end"
            yield found("TW240", where, f"{path} is not a plain absolute path", fix)
            continue
        mount = mount_of(run, path)
        if mount is None or not isinstance(run.rank_mounts[mount], ClaimMount):
            what = "nothing is mounted there" if mount is None else f"{mount} is {_in_place_of_a_claim(run.rank_mounts[mount])}"
            fix = f"mount a claim there, such as `mounts: {{{path}: {{claim: NAME, read_only: true}}}}`"
            yield found("TW240", where, f"data at {path} would be lost: {what}", fix)
        others = (*run.rank_mounts, *run.files, *(other for other in run.prepare if other != path))
        inside = next((other for other in others if other != path and PurePosixPath(other).is_relative_to(path)), None)
        if inside:
            message = f"{inside} lies in the data at {path}, which is read-only"
            yield found("TW240", where, message, f"move {inside} out of {path}")
        if path == run.checkpoints.root and run.needs_checkpoints:
            message = f"checkpoints are written to {path}, and data is read-only"
            yield found("TW240", where, message, "fetch the data into another folder")


def _in_place_of_a_claim(mount: Mount) -> str:
    return "scratch space, which ends with its pod" if isinstance(mount, ScratchMount | EphemeralMount) else "no claim"


def claims(context: Context) -> Iterator[Finding]:
    """The Job that fetches must be able to write."""
    run = context.run
    namespace = context.cluster.namespaces.get(run.namespace)
    for path in run.prepare:
        mount = run.rank_mounts.get(mount_of(run, path) or "")
        claim = namespace.claims.get(mount.claim) if namespace and isinstance(mount, ClaimMount) else None
        if claim and isinstance(mount, ClaimMount) and claim.access == "ReadOnlyMany":
            yield found(
                "TW241",
                context.locate.run(f"/prepare/{escape(path)}"),
                f"claim {mount.claim} is ReadOnlyMany: no Job can write {path}",
                "use a ReadWriteMany claim, or remove the entry if something else fills the claim",
            )


def images(context: Context) -> Iterator[Finding]:
    """The tool's image must follow the rules of the run's own."""
    for path, preparation in context.run.prepare.items():
        yield from image_findings(preparation.image, context.cluster, context.locate.run(f"/prepare/{escape(path)}/image"))


def failures(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Pods that wait for their data in an init container, under an operator that does not count its failures."""
    run, binding = context.run, resolution.binding
    if not run.prepare or binding.recovery.counts_init_failures:
        return
    message = (
        f"if the data never arrives, pods of a {resolution.plan.target_title} fail every {run.peer_wait} and are replaced "
        "without being counted; they hold their nodes until somebody fixes the Job that fetches it"
    )
    fix = f"alert on failed Jobs `data-*` in namespace {run.namespace}, and waive this{_counting(resolution)}"
    yield found("TW244", context.locate.run("/prepare"), message, fix)


def _counting(resolution: Resolution) -> str:
    """Targets that would count the failures and end the run."""
    from trainwright.operators import TARGETS  # targets are built on resolutions

    answers = {name: answer(target, resolution.needs, resolution.cluster) for name, target in TARGETS.items()}
    names = [name for name, said in answers.items() if isinstance(said, Binding) and said.recovery.counts_init_failures]
    return f"; or use target {' or '.join(names)}" if names else ""


RUN = (places, claims, images)
PLAN = (failures,)
