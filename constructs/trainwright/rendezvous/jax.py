"""JAX's coordinator: process 0 runs it, and every process is given its address, their number and its own."""

from __future__ import annotations

from trainwright.handshake import Binding, Needs, Variable

INDEX = "JAX_PROCESS_ID"


def variables(needs: Needs, binding: Binding, name: str) -> tuple[Variable, ...]:
    """By the names of Kubeflow Trainer (pkg/runtime/framework/plugins/jax). JAX itself reads the first (jax/_src/distributed.py);
    a program hands the others to ``jax.distributed.initialize``. ``name`` is that of the run's objects.
    """
    address = f"{binding.rank_zero_host.format(name=name)}:{binding.rendezvous_port}"
    return (
        Variable("JAX_COORDINATOR_ADDRESS", address, "where process 0 listens for the others"),
        Variable("JAX_NUM_PROCESSES", str(needs.world_size), "processes that the coordinator waits for", "run:/topology/nodes"),
    )
