"""What runs in a worker of Ray Train: the parent of one rank, which dials the driver's supervisor as it would under mpirun.

The rank is a process of its own, for Ray runs the function below in a thread: a rank wants signal handlers, and must be killed
alone where it hangs in a collective.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import ray
from ray.train.backend import Backend
from ray.train.torch import TorchConfig

from trainwright_trainer.contract.layout import SPEC_ENV
from trainwright_trainer.supervisor import shim
from trainwright_trainer.supervisor.launchers.remote_rank import DIAL_ENV, PARENT_MODULE


def run_rank(config: dict[str, Any]) -> None:
    """Start the rank and wait for its end. Its outcome goes to the supervisor; an error here means that it could not be told."""
    context = ray.train.get_context()
    environment = {
        **os.environ, DIAL_ENV: config["dial"], SPEC_ENV: config["specification"], "RANK": str(context.get_world_rank()),
        "WORLD_SIZE": str(context.get_world_size()), "LOCAL_RANK": str(context.get_local_rank()),
    }
    # From the thread that waits: the kernel ends the parent, and the parent's end the rank, if this thread is no more.
    parent = shim.tied([sys.executable, "-m", PARENT_MODULE, *config["command"]])
    status = subprocess.run(parent, env=environment, stdin=subprocess.DEVNULL, check=False).returncode
    if status:
        raise RuntimeError(f"the parent of rank {context.get_world_rank()} ended with {status}; its output says why")


class _RankRendezvousBackend(Backend):  # type: ignore[misc]
    share_cuda_visible_devices = True
    """The ranks of a node choose their GPUs by local rank, so each must see all of them."""

    def on_start(self, worker_group: Any, backend_config: TorchConfig) -> None:
        """Tell all workers where rank 0 listens: on its node, which is known only now."""
        address, port = worker_group.execute_single(0, own_address)
        worker_group.execute(meet_at, address, port)


class RankRendezvous(TorchConfig):  # type: ignore[misc]
    """Ray's own would connect the workers to each other, and take memory of each GPU: it is the ranks below them that train."""

    @property
    def backend_cls(self) -> type[Backend]:
        return _RankRendezvousBackend

    @property
    def train_func_context(self) -> type[AbstractContextManager[None]]:
        return nullcontext


def own_address() -> tuple[str, int]:
    """This node's address, and a port there that is free now."""
    with socket.create_server(("", 0)) as server:
        return ray.util.get_node_ip_address(), int(server.getsockname()[1])


def meet_at(address: str, port: int) -> None:
    """For the rank that this worker will start."""
    os.environ.update({"MASTER_ADDR": address, "MASTER_PORT": str(port)})
