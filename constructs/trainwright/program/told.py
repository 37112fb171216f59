"""Variables that one controller or another sets, and that a command reads where its own does not."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from trainwright.command.launchers import MPI_LAUNCHERS, TORCH_LAUNCHERS, Fact, launches
from trainwright.command.model import By, Command
from trainwright.findings import Finding
from trainwright.findings.codes import found
from trainwright.objects.fields import mapping
from trainwright.program.container import Program
from trainwright.program.launching import VARIABLES

_BY_CONTROLLERS = re.compile(
    r"JOB_COMPLETION_INDEX|V[CK]_TASK_?INDEX|VC_\w+_(HOSTS|NUM)|MPI_HOST|RANK|WORLD_SIZE|TF_CONFIG|WORKER_(ADDRS|PORT)|"
    r"PET_(NNODES|NPROC_PER_NODE|NODE_RANK|MASTER_(ADDR|PORT)|RDZV_(ENDPOINT|BACKEND|ID))|"
    r"DMLC_(TASK_ID|TRACKER_URI|TRACKER_PORT|NUM_WORKER)|JAX_(PROCESS_ID|COORDINATOR_ADDRESS|NUM_PROCESSES)|"
    r"LWS_(LEADER_ADDRESS|GROUP_SIZE|WORKER_INDEX)|MEGASCALE_\w+|PADDLE_\w+|OMPI_COMM_WORLD_\w+|PMI_(RANK|SIZE)|"
    r"SLURM_\w+|PBS_\w+|LSB_\w+|BATCH_TASK_INDEX|AWS_BATCH_JOB_\w+"
)
"""What a controller of one kind of object or another sets, or another scheduler, and no image: a command that came from there may
still read it.
"""
_TPU = "google.com/tpu"
_OF_TPUS = re.compile(r"TPU_WORKER_(ID|HOSTNAMES)")
"""What GKE sets in a container that asks for TPUs (https://cloud.google.com/kubernetes-engine/docs/concepts/tpus)."""
MEETING = frozenset({"MASTER_ADDR", "MASTER_PORT"})
_OF_EACH_RANK = MEETING | {"RANK", "WORLD_SIZE"}
"""What a launcher tells the ranks that it starts."""
_MAY_SET_ANYTHING = frozenset({"source", "eval", "."})
_ASKS_FOR_IT = frozenset({"[", "[[", "test", "echo", "printf", "case"})
"""What goes on where a variable is empty."""


def set_by_a_controller(name: str) -> bool:
    """Whether it has its value from a controller, of whatever kind."""
    return (_BY_CONTROLLERS.fullmatch(name) or _OF_TPUS.fullmatch(name)) is not None


def comes_with_devices(name: str, container: Mapping[str, Any]) -> bool:
    """Whether a container has it because of the devices that it asks for."""
    asks = any(_TPU in mapping(container, f"/resources/{kind}") for kind in ("limits", "requests"))
    return asks and _OF_TPUS.fullmatch(name) is not None


def is_index(name: str) -> bool:
    """Whether it is the number of a pod among others, with one controller or another."""
    return VARIABLES.get(name) is Fact.INDEX or re.fullmatch("RANK|V[CK]_TASK_?INDEX|SLURM_NODEID", name) is not None


def taken_from_outside(command: Command) -> set[str]:
    """Names that a shell takes from its environment, as far as it is certain that nothing else sets them."""
    if any(simple.program in _MAY_SET_ANYTHING for simple in command.simple):
        return set()
    names, launched = command.names_read(), launches(command)
    if launched:
        options = (option for launch in launched if launch.name in TORCH_LAUNCHERS for option in launch.options)
        names -= _OF_EACH_RANK
        read = (one for _, values in options for word in values for one in word.reads)
        names |= {one.name for one in read if one.by is By.SHELL and not one.default}
    asked = (word for simple in command.simple if simple.program in _ASKS_FOR_IT for word in simple.words)
    return names - {name for name, _ in command.sets()} - {read.name for word in asked for read in word.reads}


def reads_what_it_has(program: Program) -> Iterator[Finding]:
    """In pods that the object's own controller makes."""
    if program.world is None or program.hosts is None or program.container.get("envFrom"):
        return
    for place, command in program.commands():
        launched = {launch.name for launch in launches(command)}
        names = set() if launched & MPI_LAUNCHERS else taken_from_outside(command) - program.has
        names = {name for name in names if not comes_with_devices(name, program.container)}
        for name in sorted(name for name in names if set_by_a_controller(name) or name in MEETING):
            message = f"the command reads {name}, which {program.world.says} sets in no pod: a shell puts nothing in its place"
            index = f"write ${program.world.number}, the pod's number" if is_index(name) and program.world.number else ""
            yield found("TW457", program.where(place), message, index or _INSTEAD)
    options = {word.text for launch in launches(program.command) for _, values in launch.options for word in values}
    for word in program.command.simple[0].words if program.process_1 else ():
        for name, by, _ in word.reads if word.text not in options else ():
            if by is By.NOBODY and (name in program.has or set_by_a_controller(name) or name in MEETING):
                message = f"the command holds the text ${name}, which nothing replaces: no shell reads this command"
                fix = f"write $({name}), which Kubernetes expands; or start it by a shell, as in [bash, -c, …]"
                yield found("TW419", program.where(program.at), message, fix)
            elif by is By.KUBERNETES and name not in program.has and not name.startswith("KUBERNETES_"):
                message = f"the command holds $({name}), which stays as it is: the pods have no variable {name}"
                yield found("TW419", program.where(program.at), message, f"set {name} under env, or write the value out")


_INSTEAD = "read what these pods have, or set the variable under env or in the command"
RULES = (reads_what_it_has,)
