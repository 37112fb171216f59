"""Torch's own two: static, where rank 0's address is known beforehand, and c10d, an elastic store on one host."""

from __future__ import annotations

from trainwright.handshake import Binding, Needs, Variable

INDEX = "PET_NODE_RANK"

SHARED_STORE = Variable(
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1",
    "a node that joins later needs the address of rank 0, which torch 2.13 publishes in the first round only where stores are "
    "shared",
)


def torchrun_variables(needs: Needs, binding: Binding, name: str) -> tuple[Variable, ...]:
    """Torchrun reads each of its options from PET_<OPTION> (torch/distributed/run.py), so the command needs no flags. ``name`` is
    that of the run's objects.
    """
    return (
        Variable("PET_NNODES", str(needs.nodes), "torchrun's --nnodes: pods of the run", "run:/topology/nodes"),
        Variable(
            "PET_NPROC_PER_NODE", str(needs.processes_per_node), "torchrun's --nproc-per-node: ranks in a pod", "run:/topology"
        ),
        Variable("PET_MASTER_ADDR", binding.rank_zero_host.format(name=name), "static rendezvous: where rank 0 listens"),
        Variable("PET_MASTER_PORT", str(binding.rendezvous_port), "static rendezvous: the port of rank 0"),
    )


def meeting(binding: Binding, name: str) -> tuple[Variable, ...]:
    """For ranks that mpirun starts, and that meet by torch. MPI tells them their numbers."""
    return (
        Variable("MASTER_ADDR", binding.rank_zero_host.format(name=name), "where torch looks for rank 0"),
        Variable("MASTER_PORT", str(binding.rendezvous_port), "the port of rank 0"),
    )
