"""What a command's launcher is told of the other pods, besides torchrun's own variables.

torchrun reads ``PET_`` variables, and every command has them. Other launchers take options, and people write these with the names
in common use. A pod has such a variable where the command reads it, so that nothing else changes with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from trainwright.command.reading import read
from trainwright.handshake import Binding, Needs, Rendezvous, Variable
from trainwright.rendezvous.torch import INDEX

NODE_RANK = "NODE_RANK"
LAUNCHER_VARIABLES = ("MASTER_ADDR", "MASTER_PORT", "NNODES", NODE_RANK, "NPROC_PER_NODE")
"""Not among them is what a launcher tells each of its ranks (RANK, LOCAL_RANK, WORLD_SIZE): a pod has several of these."""

READ_BY_LAUNCHERS = {"composer": frozenset({"MASTER_ADDR", "MASTER_PORT", NODE_RANK})}
"""What a launcher reads of them by itself, where it is given no option (composer/cli/launcher.py)."""

_READ = re.compile(rf"(?<![A-Za-z0-9_])({'|'.join(LAUNCHER_VARIABLES)})(?![A-Za-z0-9_]|=(?!=))")
"""Whatever the language is: a program of Python may be among the words. What it is followed by is no assignment."""
_TORCHRUN = re.compile(r"torchrun|torch\.distributed\.(run|launch)")


def names_read(commands: Iterable[Sequence[str]], files: Iterable[str], env: Iterable[str]) -> frozenset[str]:
    """Of ``LAUNCHER_VARIABLES``, those that a command, a file of the run or a value of its ``env`` reads.

    What a command sets before it reads it is its own. Files are programs of the ranks where a command starts torchrun, and
    torchrun tells those by itself.
    """
    asked = [tuple(command) for command in commands]
    words = " ".join(word for command in asked for word in command)
    texts = [words, *env, *([] if _TORCHRUN.search(words) else files)]
    names = {name for text in texts for name in _READ.findall(text)}
    for program in (word.rpartition("/")[2] for word in words.split()):
        names |= READ_BY_LAUNCHERS.get(program, frozenset())
    return frozenset(names.difference(*(read(command).sets_unread() for command in asked)))


def launcher_variables(needs: Needs, binding: Binding, name: str) -> tuple[Variable, ...]:
    """All but the pod's index, which is no constant."""
    return (
        Variable("MASTER_ADDR", binding.rank_zero_host.format(name=name), "for the launcher: where rank 0 listens"),
        Variable("MASTER_PORT", str(binding.rendezvous_port), "for the launcher: the port of rank 0"),
        Variable("NNODES", str(needs.nodes), "for the launcher: pods of the run", "run:/topology/nodes"),
        Variable("NPROC_PER_NODE", str(needs.processes_per_node), "for the launcher: ranks in a pod", "run:/topology"),
    )


def handed_on(binding: Binding, told: frozenset[str]) -> dict[str, str]:
    """The pod's index where only a variable of the operator has it, which the command line has to hand on.

    Operators append their variables to the container's own, and the kubelet leaves a reference in ``env`` to what comes later as
    it is; in ``command`` it knows all of them (Kubernetes, pkg/kubelet/kubelet_pods.go, makeEnvironmentVariables).
    """
    if NODE_RANK not in told or binding.index_field or INDEX not in binding.injects:
        return {}
    return {NODE_RANK: INDEX}


def untold(needs: Needs, binding: Binding) -> str | None:
    """Why the pods cannot have ``LAUNCHER_VARIABLES``; None where they can."""
    if needs.elastic:
        return "nodes of an elastic run come and go, so none has a fixed number"
    if not needs.talk:
        return f"pods of this topology do not communicate, so each has {NODE_RANK} and NNODES and nothing else"
    if needs.rendezvous is not Rendezvous.STATIC:
        return f"ranks of this topology find each other by {_INSTEAD[needs.rendezvous]}"
    return None if binding.index_field or INDEX in binding.injects else "this target does not number its pods"


_INSTEAD = {
    Rendezvous.MPI_HOSTFILE: "mpirun, which starts them in the pods and numbers them itself",
    Rendezvous.TF_CONFIG: "TF_CONFIG, which has the addresses of all tasks and the pod's own place",
    Rendezvous.DMLC_TRACKER: "a tracker, whose address is in DMLC_TRACKER_URI",
    Rendezvous.JAX_COORDINATOR: "a coordinator: pods have JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and JAX_PROCESS_ID",
    Rendezvous.RAY_HEAD: "Ray, which places them",
}
