"""Driver of a run on a Ray cluster: has Ray Train place the ranks, and has every rank on its own line."""

from __future__ import annotations

import importlib.util
import sys

from trainwright_trainer.contract.exit_codes import ExitCode
from trainwright_trainer.contract.failures import PodError
from trainwright_trainer.supervisor.launchers.program import LauncherProgram, RemoteLauncher, launched_role
from trainwright_trainer.supervisor.launchers.ray_train import NO_CLUSTER, NO_NODES, Configuration
from trainwright_trainer.supervisor.place import PodPlace, bind_address, host_name
from trainwright_trainer.supervisor.role import Role, Setting

MODULE = "trainwright_trainer.supervisor.launchers.ray_train"


def ray_role(setting: Setting) -> Role:
    """The role of the pod that the operator gives the entrypoint to. Raises :class:`PodError` where its image has no Ray."""
    if importlib.util.find_spec("ray") is None:
        message = "world.rendezvous.kind is ray-head, and there is no Ray in this image; use one with trainwright-trainer[ray]"
        raise PodError(ExitCode.INVALID_SPEC, "NoRay", message)
    place = PodPlace(None, bind_address(setting.environ), host_name(setting.environ))
    return launched_role(setting, place, RemoteLauncher(setting, place, _ray_train(setting)))


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
