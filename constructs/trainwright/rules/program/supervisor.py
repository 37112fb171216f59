"""Whether the pods of a script have a supervisor to start: in their image, or brought along."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.findings import Finding
from trainwright.findings.codes import found
from trainwright.findings.context import Context
from trainwright.plan import Resolution
from trainwright.plan.supervisor import kept_out, may_bring

_NAME_IT = (
    "build it by `make image FAMILY=supervisor`, push it by `trainwright images`, and write what that prints into the profile"
)


def is_somewhere(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """An image without one ends at once, with `executable file not found`."""
    run, cluster, needs = context.run, context.cluster, resolution.needs
    where = context.locate.run("/supervisor")
    if run.supervisor in ("brought", "image") and not needs.talk:
        yield found("TW268", where, f"nothing supervises {run.topology.title}: its pods are independent", "remove supervisor")
    elif run.workload.kind == "command" and run.supervised and resolution.binding.replaces_command:
        said = "Ray's job server starts the command inside the head's pod: no pod ends with its exit code, or hears its SIGTERM"
        yield found("TW268", where, said, "remove supervisor; Ray retries the command, and says how it ended")
        return
    if resolution.plan.supervisor or not may_bring(run, cluster, needs):
        return
    if why := kept_out(cluster, resolution.binding):
        fix = "put trainwright-trainer into the image (docs/images.md), and write supervisor: image"
        if resolution.binding.runtime:
            fix += "; or supervisor.mounted: true in the profile, if its nodes do execute it"
    else:
        why = f"profile {cluster.cluster} names no image to bring the supervisor from"
        fix = f"{_NAME_IT}; or write supervisor: image, if the image of the run has trainwright-trainer in it"
    if run.supervisor == "brought":
        yield found("TW268", where, why, fix)
    else:
        said = f"nothing says that {run.image.partition('@')[0]} has a supervisor, and {why}"
        yield found("TW269", context.locate.run("/image"), said, f"{fix}, or list it in supervisor.in_images of the profile")


PLAN = (is_somewhere,)
