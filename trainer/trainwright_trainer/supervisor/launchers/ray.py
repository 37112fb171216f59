"""A run on a Ray cluster: the role of its driver, and the launcher that the driver's supervisor starts.

The launcher is ``python -m trainwright_trainer.supervisor.launchers.ray CONFIGURATION``, in place of mpirun on other clusters. It
waits for the nodes, has Ray Train start one worker for each rank, and lives as long as they do. Ranks report to the supervisor
themselves.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from tempfile import TemporaryDirectory
from typing import Any, Final

from trainwright_trainer.contract.base import Contract, Count, Seconds
from trainwright_trainer.contract.exit_codes import ExitCode
from trainwright_trainer.contract.failures import PodError
from trainwright_trainer.supervisor.launchers.program import LauncherProgram, RemoteLauncher, launched_role
from trainwright_trainer.supervisor.launchers.remote_rank import DIAL_ENV
from trainwright_trainer.supervisor.place import PodPlace, bind_address, host_name
from trainwright_trainer.supervisor.pod.launcher import Setting
from trainwright_trainer.supervisor.run.attempt import Role

NO_CLUSTER: Final = int(ExitCode.INTERNAL)
"""Exit status: no Ray cluster answered."""
NO_NODES: Final = int(ExitCode.PEERS_NEVER_CAME)
"""Exit status: its nodes did not come in time."""
LOOK_SECONDS = 1.0
REPORT_SECONDS = 30.0
MODULE = "trainwright_trainer.supervisor.launchers.ray"
"""This program, as Ray's launcher."""


def ray_role(setting: Setting) -> Role:
    """The role of the pod that the operator gives the entrypoint to. Raises :class:`PodError` where its image has no Ray."""
    if importlib.util.find_spec("ray") is None:
        message = "world.rendezvous.kind is ray-head, and there is no Ray in this image; use one with trainwright-trainer[ray]"
        raise PodError(ExitCode.INVALID_SPEC, "NoRay", message)
    place = PodPlace(None, bind_address(setting.environ), host_name(setting.environ))
    return launched_role(setting, place, RemoteLauncher(setting, place, _ray_train(setting), setting.spec.world.control_secret))


def _ray_train(setting: Setting) -> LauncherProgram:
    spec, world = setting.spec, setting.spec.world
    configuration = Configuration(
        run=spec.identity, nodes=world.nodes, processes_per_node=world.processes_per_node, gpus=world.device == "cuda",
        wait_seconds=spec.lifecycle.peer_wait_seconds, command=setting.rank_command,
        specification=str(setting.specification.path),
    )
    return LauncherProgram(
        "Ray Train", (sys.executable, "-m", MODULE, configuration.model_dump_json()),
        f"give each worker pod {configuration.need}, no more and no less",
        causes={
            NO_CLUSTER: (
                ExitCode.INTERNAL,
                "no Ray cluster answers: this is the entrypoint of a RayJob, or runs where RAY_ADDRESS names a cluster's head",
            ),
            NO_NODES: (
                ExitCode.PEERS_NEVER_CAME,
                f"the Ray cluster did not come to {world.nodes} nodes with {configuration.need} each within "
                f"{spec.lifecycle.peer_wait_seconds:g} s; look for worker pods that are not scheduled",
            ),
        },
    )


class Configuration(Contract):
    """One JSON object on the launcher's command line."""

    run: str
    nodes: Count
    processes_per_node: Count
    gpus: bool
    """One for each rank."""
    wait_seconds: Seconds
    """For the nodes to join."""
    command: tuple[str, ...]
    """What each rank runs."""
    specification: str
    """Path of the run's specification, the same in all pods."""

    @property
    def need(self) -> str:
        """What a node of the run must offer."""
        return f"{self.processes_per_node} {self._unit}"

    @property
    def _unit(self) -> str:
        return "GPU" if self.gpus else "CPU"

    def offer(self, node: Mapping[str, Any]) -> str:
        """What a node of the cluster offers, as ``ray.nodes()`` describes it."""
        return f"{node['Resources'].get(self._unit, 0):g} {self._unit}"

    def fits(self, node: Mapping[str, Any]) -> bool:
        """Whether a node can hold its part of the ranks."""
        return bool(node["Alive"] and node["Resources"].get(self._unit, 0) >= self.processes_per_node)


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Exit status: 0 once all ranks have ended and said how, or what :mod:`configuration` names."""
    os.environ.setdefault("RAY_DEDUP_LOGS", "0")  # ranks say the same things, and each of them counts; read at the import
    import ray

    configuration = Configuration.model_validate_json(arguments[0])
    try:
        ray.init(address="auto")
    except (ConnectionError, RuntimeError, ValueError) as error:
        print(f"no Ray cluster answers: {error}", file=sys.stderr, flush=True)
        return NO_CLUSTER
    if not await_nodes(configuration, ray.nodes):
        return NO_NODES
    train(configuration, environment[DIAL_ENV])
    return 0


def await_nodes(configuration: Configuration, nodes: Callable[[], Sequence[Mapping[str, Any]]]) -> bool:
    """Wait until enough nodes offer what a node of the run needs; False, and who was there, where the time is up."""
    deadline, report_at = time.monotonic() + configuration.wait_seconds, 0.0
    while True:
        found = nodes()
        fit = [node for node in found if configuration.fits(node)]
        if len(fit) >= configuration.nodes:
            return True
        if time.monotonic() >= min(deadline, report_at):
            report_at = time.monotonic() + REPORT_SECONDS
            offers = [f"{node['NodeManagerHostname']} ({configuration.offer(node)})" for node in found if node["Alive"]]
            wanted = f"{len(fit)} of {configuration.nodes} Ray nodes offer {configuration.need}"
            print(f"{wanted}; there are {', '.join(offers) or 'none'}", file=sys.stderr, flush=True)
        if time.monotonic() >= deadline:
            return False
        time.sleep(LOOK_SECONDS)


def train(configuration: Configuration, dial: str) -> None:
    """One worker of Ray Train for each rank. A worker that dies ends it: another attempt is the operator's to make."""
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    from trainwright_trainer.supervisor.launchers.ray_worker import RankRendezvous, run_rank

    config = {"dial": dial, "command": list(configuration.command), "specification": configuration.specification}
    scaling = ScalingConfig(
        num_workers=configuration.nodes * configuration.processes_per_node, use_gpu=configuration.gpus,
        resources_per_worker={"CPU": 1, "GPU": 1} if configuration.gpus else {"CPU": 1},
        # Nodes with as many GPUs as they have ranks are full in any case; on CPUs nothing else would keep ranks apart.
        placement_strategy="PACK" if configuration.processes_per_node > 1 else "STRICT_SPREAD",
    )
    with TemporaryDirectory(prefix="ray-train-") as folder:  # of Ray's own notes: checkpoints are the trainer's
        TorchTrainer(
            run_rank, train_loop_config=config, torch_config=RankRendezvous(), scaling_config=scaling,
            run_config=RunConfig(name=configuration.run, storage_path=folder, failure_config=FailureConfig(max_failures=0)),
        ).fit()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
