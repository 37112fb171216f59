"""Has Ray Train start a worker for each rank: a program that the driver's supervisor starts, which has no Ray itself.

It runs by a Python that has Ray, that of the scripts where the supervisor was brought along, and needs nothing else. It waits for
the nodes, and lives as long as the workers do. A worker starts the parent of its rank, which dials the supervisor as it would
under mpirun. The rank is a process of its own, for Ray runs the function below in a thread: a rank wants signal handlers, and
must be killed alone where it hangs in a collective.

Ray sends its workers whatever a driver's ``__main__`` defines, so they import nothing of ours.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from contextlib import nullcontext
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from trainwright_trainer.run.launched import NO_CLUSTER, NO_NODES, NO_RAY

os.environ.setdefault("RAY_DEDUP_LOGS", "0")  # ranks say the same things, and each of them counts; read at the import
try:
    import ray
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.backend import Backend
    from ray.train.torch import TorchConfig, TorchTrainer
except ImportError as error:
    print(f"{sys.executable} has no Ray Train on torch: {error}", file=sys.stderr, flush=True)
    sys.exit(NO_RAY)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

LOOK_SECONDS = 1.0
REPORT_SECONDS = 30.0


def main(configuration: Mapping[str, Any]) -> int:
    """Exit status: 0 once all ranks have ended and said how, or what :mod:`launched` names.

    Args:
        configuration: what :mod:`supervisor.launchers.ray` writes.
    """
    try:
        ray.init(address="auto")
    except (ConnectionError, RuntimeError, ValueError) as error:
        print(f"no Ray cluster answers: {error}", file=sys.stderr, flush=True)
        return NO_CLUSTER
    if not await_nodes(configuration, ray.nodes):
        return NO_NODES
    told = {name: os.environ[name] for name in configuration["exports"]}
    train({**configuration, "environment": {**configuration["environment"], **told}})
    return 0


def await_nodes(configuration: Mapping[str, Any], nodes: Callable[[], Sequence[Mapping[str, Any]]]) -> bool:
    """Wait until enough nodes offer what a node of the run needs; False, and who was there, where the time is up."""
    unit, least = "GPU" if configuration["gpus"] else "CPU", configuration["processes_per_node"]
    deadline, report_at = time.monotonic() + configuration["wait_seconds"], 0.0
    while True:
        offers = [(node["NodeManagerHostname"], node["Resources"].get(unit, 0)) for node in nodes() if node["Alive"]]
        fit = sum(offered >= least for _, offered in offers)
        if fit >= configuration["nodes"]:
            return True
        if time.monotonic() >= min(deadline, report_at):
            report_at = time.monotonic() + REPORT_SECONDS
            there = ", ".join(f"{name} ({offered:g} {unit})" for name, offered in offers) or "none"
            wanted = f"{fit} of {configuration['nodes']} Ray nodes offer {least} {unit}"
            print(f"{wanted}; there are {there}", file=sys.stderr, flush=True)
        if time.monotonic() >= deadline:
            return False
        time.sleep(LOOK_SECONDS)


def train(configuration: Mapping[str, Any]) -> None:
    """One worker of Ray Train for each rank. A worker that dies ends it: another attempt is the operator's to make."""
    ranks, gpus = configuration["nodes"] * configuration["processes_per_node"], configuration["gpus"]
    scaling = ScalingConfig(
        num_workers=ranks, use_gpu=gpus, resources_per_worker={"CPU": 1, "GPU": 1} if gpus else {"CPU": 1},
        # Nodes with as many GPUs as they have ranks are full in any case; on CPUs nothing else would keep ranks apart.
        placement_strategy="PACK" if configuration["processes_per_node"] > 1 else "STRICT_SPREAD",
    )
    with TemporaryDirectory(prefix="ray-train-") as folder:  # of Ray's own notes: checkpoints are the ranks'
        TorchTrainer(
            run_rank, train_loop_config=dict(configuration), torch_config=RankRendezvous(), scaling_config=scaling,
            run_config=RunConfig(name=configuration["run"], storage_path=folder, failure_config=FailureConfig(max_failures=0)),
        ).fit()


def run_rank(configuration: dict[str, Any]) -> None:
    """Start the rank and wait for its end. Its outcome goes to the supervisor; an error here means that it could not be told."""
    context = ray.train.get_context()
    environment = {
        **os.environ, **configuration["environment"], "RANK": str(context.get_world_rank()),
        "WORLD_SIZE": str(context.get_world_size()), "LOCAL_RANK": str(context.get_local_rank()),
    }
    # From the thread that waits: the kernel ends the parent, and the parent's end the rank, if this thread is no more.
    parent = [*configuration["tied"], str(os.getpid()), *configuration["parent"]]
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


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
