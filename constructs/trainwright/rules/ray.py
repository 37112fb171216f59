"""Rules on work that a Ray cluster runs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.findings import Finding
from trainwright.findings.codes import found
from trainwright.handshake import Rendezvous
from trainwright.plan import Resolution
from trainwright.rules.context import Context
from trainwright.run import CommandWorkload, ScriptWorkload
from trainwright.target.ray_job import ray_version

_PLAIN = re.compile(r"[\w@%+=:,./ -]*", re.ASCII)
"""What both shells on the way read alike: the characters that need no quotes, and the blank."""


def work_starts(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """What Ray's driver can be: our trainer, or a program that calls Ray itself."""
    work = context.run.workload
    if resolution.needs.rendezvous is not Rendezvous.RAY_HEAD:
        return
    if isinstance(work, ScriptWorkload):
        message = "our supervisor starts one process a rank, and in a Ray cluster Ray does"
        fix = "write kind: command, and have the program start its ranks through Ray Train; or use another topology"
        yield found("TW424", context.locate.run("/workload/kind"), message, fix)
    for number, word in enumerate(work.command if isinstance(work, CommandWorkload) else ()):
        if not _PLAIN.fullmatch(word):
            message = f"argument {number} holds a character that a shell reads, and two shells read it on its way to the head"
            fix = "put the command into a file of the run (files), and start that: [bash, /app/start.sh]"
            yield found("TW424", context.locate.run(f"/workload/command/{number}"), message, fix)


def version_is_known(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """The operator asks which release of Ray it starts, and an image may say so itself."""
    run = context.run
    if resolution.needs.rendezvous is not Rendezvous.RAY_HEAD:
        return
    stated, tagged = resolution.needs.version, ray_version(run.image, None)
    if stated is None and tagged is None:
        fix = "add topology.version, the release of Ray in the image: `python -c 'import ray; print(ray.__version__)'`"
        message = "neither the run nor the image's tag says which release of Ray it is"
        yield found("TW426", context.locate.run("/image"), message, fix)
    elif stated is not None and tagged is not None and stated != tagged.value:
        message = f"topology.version is {stated}, and the image's tag says {tagged.value}"
        yield found("TW426", context.locate.run("/topology/version"), message, "remove version, or use the image of that release")


def shared_memory(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """The operator mounts its own, of the size of the pod's memory (ray-operator/controllers/ray/common/pod.go)."""
    if resolution.binding.own_shared_memory and context.run.resources.shared_memory is not None:
        message = f"{resolution.target.title} does not read resources.shared_memory: its operator mounts shared memory itself"
        yield found("TW207", context.locate.run("/resources/shared_memory"), message, "remove it")


PLAN = (work_starts, version_is_known, shared_memory)
