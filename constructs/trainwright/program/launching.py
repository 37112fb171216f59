"""Options by which a command starts its ranks, against the pods that there are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from trainwright.command.launchers import LAUNCHERS, Fact, Launch
from trainwright.command.model import By, Word
from trainwright.findings import Finding, Where
from trainwright.findings.codes import found

_STATED = {
    "NNODES": Fact.NODES, "NPROC_PER_NODE": Fact.EACH, "MASTER_ADDR": Fact.ADDRESS, "MASTER_PORT": Fact.PORT,
    "NODE_RANK": Fact.INDEX,
}  # fmt: skip
VARIABLES: Mapping[str, Fact] = {
    **_STATED, **{f"PET_{name}": fact for name, fact in _STATED.items()}, "WORLD_SIZE": Fact.RANKS,
    "JOB_COMPLETION_INDEX": Fact.INDEX, "VC_TASK_INDEX": Fact.INDEX,
}  # fmt: skip
"""What a variable of a pod holds."""
INDEX = "PET_NODE_RANK"
_FIELDS = {fact: fact.value for fact in Fact}


class World(NamedTuple):
    """The pods among which a command starts ranks."""

    says: str
    """Who says so: ``the plan``, or the kind of an object."""
    nodes: int
    wanted: Mapping[Fact, tuple[str, ...]]
    """What an option may say; what to write comes first."""
    alike: int = 1
    """Those of them that run the same command."""
    each: int = 1
    """Ranks in a pod."""
    gpus: int = 0
    elastic: str = ""
    """As torchrun is told of sizes, ``2:4``; no other launcher is."""
    ranges: bool = False
    """Whether a range of sizes says the same as the number in it."""
    number: str = INDEX
    """Variable that holds the pod's number; empty where nothing is known to."""
    tells: bool = True
    """Whether pods have the ``PET_`` variables that torchrun reads."""
    holds: Mapping[str, Fact] = VARIABLES
    field: Mapping[Fact, str] = _FIELDS
    """How to change what is wanted."""

    def told(self, launch: Launch) -> World:
        """As a launcher can be told of them."""
        sizes = {Fact.NODES: (self.elastic,)} if self.elastic and launch.launcher.reads_plan else {}
        return self._replace(wanted={**self.wanted, **sizes})

    def means_the_same(self, fact: Fact, given: str) -> bool:
        """Whether another value than the wanted one does no harm: in one pod nobody else looks for rank 0."""
        host = given.rpartition(":")[0] if fact is Fact.ENDPOINT else given
        alone = self.nodes == 1 and not self.elastic
        return alone and (fact is Fact.PORT or (fact in (Fact.ADDRESS, Fact.ENDPOINT) and host in THIS_POD))

    def contradicts(self, fact: Fact, given: str) -> str | None:
        """What the pods have in place of a value; None where the two agree, or nothing is known."""
        allowed = self.wanted.get(fact, ())
        low, colon, _ = given.partition(":")
        fits = self.ranges and fact is Fact.NODES and bool(colon) and low.isdigit() and int(low) <= self.nodes
        return None if not allowed or given in allowed or fits or self.means_the_same(fact, given) else allowed[0]

    def instead(self, name: str, fact: Fact, wanted: str) -> str:
        """What to write for an option of a launcher."""
        field = f"; {self.field[fact]}" if fact in self.field else ""
        if LAUNCHERS[name].reads_plan and self.tells:
            return f"remove it: {name} reads PET_ variables{field}"
        # The name of rank 0's host changes with the identity, so the command cannot hold it.
        return f"write {'$(PET_MASTER_ADDR)' if fact is Fact.ADDRESS else wanted}{field}"


def options_against(world: World, launch: Launch, where: Where, env: Mapping[str, str]) -> Iterator[Finding]:
    """What the options of a launcher of torch say against the pods; ``env`` is what the container has as text."""
    name, launcher, backend = launch.name, launch.launcher, launch.given("--rdzv-backend")
    world = world.told(launch)
    env = {name: value for name, value in env.items() if name not in world.holds}
    for stated, fact in launcher.says.items():
        given, option = launch.given(stated), as_written(stated)
        if given is None or (fact is Fact.ENDPOINT and backend and backend.text not in MEET_AT_RANK_0):
            continue
        unread, value = next((read.name for read in given.reads if read.by is By.NOBODY), None), given.resolved(env)
        wanted = None if value is None else world.contradicts(fact, value)
        if unread is not None:
            text = given.text[:80]
            message = f"{option} is given the text {text}: no shell reads this command, and Kubernetes expands only $(NAME)"
            yield found("TW411", where, message, _without_a_shell(world, launch, fact, unread))
        elif value is None:
            yield from _reference(world, launch, option, fact, given, where)
        elif fact is Fact.INDEX and world.alike > 1:
            fix = f"remove it: {name} reads {world.number}" if launcher.reads_plan and world.tells else f"write $({world.number})"
            fix = f"write --node_rank $({world.number}) instead" if option == "--base_rank" and world.each > 1 else fix
            yield found("TW411", where, f"{option} is the same number in every pod", fix)
        elif wanted and not (launcher.reads_plan and fact is Fact.EACH and value in _EACH_GPU and world.gpus):
            message = f"{option} {value[:80]} contradicts {world.says}, which has {wanted}"
            yield found("TW411", where, message, world.instead(name, fact, wanted))
    if "--standalone" in launch.names and world.alike > 1:
        field = ", or set topology.nodes to 1" if Fact.NODES in world.field else ""
        yield found("TW411", where, "with --standalone each pod would train alone", f"remove it{field}")


def _without_a_shell(world: World, launch: Launch, fact: Fact, name: str) -> str:
    if launch.launcher.reads_plan and world.tells:
        return world.instead(launch.name, fact, "")
    return f"write $({name})" if name else "write the number; or start the command by a shell, as in [bash, -c, …]"


def as_written(option: str) -> str:
    """With underscores, as most people write long options of these launchers."""
    return option.replace("-", "_").replace("__", "--", 1) if option.startswith("--") else option


_EACH_GPU = frozenset({"gpu", "auto"})
"""As many ranks as torchrun sees GPUs, which are those of the pod (torch/distributed/run.py, determine_local_world_size)."""
MEET_AT_RANK_0 = frozenset({"static", "c10d"})
"""Backends of torchrun without a server of their own; etcd's endpoint is no business of the pods."""
THIS_POD = frozenset({"localhost", "127.0.0.1", "::1"})


def _reference(world: World, launch: Launch, option: str, fact: Fact, given: Word, where: Where) -> Iterator[Finding]:
    """An option whose value is one variable: it has to be one that holds what the option says."""
    holds, wanted = world.holds.get(given.variable or ""), world.wanted.get(fact, ("",))
    if holds is None or holds is fact or wanted == world.wanted.get(holds) or (world.elastic and not world.wanted.get(fact)):
        return
    message = f"{option} is {given.text}, which holds {_HOLDS[holds]}, and not {_HOLDS[fact]}"
    right = next((variable for variable, of in VARIABLES.items() if of is fact), "")
    fix = f"write {wanted[0] if fact is Fact.RANKS and wanted[0] else f'$({right})'}"
    yield found("TW411", where, message, fix if right else world.instead(launch.name, fact, ""))


_HOLDS = {
    Fact.NODES: "the number of pods", Fact.EACH: "the ranks of a pod", Fact.RANKS: "the ranks of all pods",
    Fact.ADDRESS: "the host of rank 0", Fact.PORT: "the port of rank 0", Fact.INDEX: "the pod's number",
    Fact.ENDPOINT: "host and port of rank 0",
}  # fmt: skip
