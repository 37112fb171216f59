"""What a pod of a torch topology runs, for each kind of workload."""

from __future__ import annotations

from dataclasses import dataclass

from trainwright.handshake import Binding, Needs, Process, Variable
from trainwright_trainer.contract.layout import SPEC_DIRECTORY, SPEC_ENV, SPEC_FILE, SUPERVISE_COMMAND


@dataclass(frozen=True, slots=True)
class Work:
    """What a topology must know of the workload to start it."""

    name: str
    """Of the run's objects."""
    command: tuple[str, ...] | None
    """An opaque command; None where the supervisor reads its work from the specification."""


def torch_process(needs: Needs, binding: Binding, work: Work) -> Process:
    """Our supervisor, or the user's command with the variables that torchrun reads."""
    if work.command is None:
        spec = Variable(SPEC_ENV, f"{SPEC_DIRECTORY}/{SPEC_FILE}", "where the supervisor finds the run's specification")
        return Process(command=SUPERVISE_COMMAND, environment=(spec,))
    return Process(command=work.command, environment=torchrun_environment(needs, binding, work.name), supervised=False)


def torchrun_environment(needs: Needs, binding: Binding, name: str) -> tuple[Variable, ...]:
    """Torchrun reads each of its options from PET_<OPTION> (torch/distributed/run.py), so the command needs no flags.

    What the controller injects, or what the target renders from pod metadata, is left out.
    """
    wanted = (
        Variable("PET_NNODES", str(needs.nodes), "torchrun's --nnodes: pods of the run", "run:/topology/nodes"),
        Variable(
            "PET_NPROC_PER_NODE", str(needs.processes_per_node), "torchrun's --nproc-per-node: ranks in a pod", "run:/topology"
        ),
        Variable("PET_MASTER_ADDR", binding.rank_zero_host.format(name=name), "static rendezvous: where rank 0 listens"),
        Variable("PET_MASTER_PORT", str(binding.rendezvous_port), "static rendezvous: the port of rank 0"),
    )
    return tuple(v for v in wanted if v.name not in binding.injects and v.name not in binding.renders)
