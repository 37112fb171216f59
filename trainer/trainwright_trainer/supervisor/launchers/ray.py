"""A run on a Ray cluster: the role of its driver, whose launcher is :mod:`run.ray_workers`, in place of mpirun elsewhere."""

from __future__ import annotations

import json
from typing import Final

from trainwright_trainer.contract.exit_codes import ExitCode
from trainwright_trainer.contract.layout import SPEC_ENV
from trainwright_trainer.run.launched import NO_CLUSTER, NO_NODES, NO_RAY
from trainwright_trainer.supervisor import shim
from trainwright_trainer.supervisor.interpreter import hand_path, interpreter, python_of_image
from trainwright_trainer.supervisor.launchers.program import LauncherProgram, RemoteLauncher, launched_role
from trainwright_trainer.supervisor.launchers.remote_rank import DIAL_ENV, PARENT_MODULE
from trainwright_trainer.supervisor.place import PodPlace, bind_address, host_name
from trainwright_trainer.supervisor.pod.launcher import Setting
from trainwright_trainer.supervisor.run.attempt import Role

PROGRAM: Final = "trainwright_trainer.run.ray_workers"


def ray_role(setting: Setting) -> Role:
    """The role of the pod that the operator gives the entrypoint to."""
    place = PodPlace(None, bind_address(setting.environ), host_name(setting.environ))
    return launched_role(setting, place, RemoteLauncher(setting, place, _ray_train(setting), setting.spec.world.control_secret))


def _ray_train(setting: Setting) -> LauncherProgram:
    spec, world = setting.spec, setting.spec.world
    need = f"{world.processes_per_node} {'GPU' if world.device == 'cuda' else 'CPU'}"
    python, budget = python_of_image(setting.rank_command, setting.environ), spec.lifecycle.peer_wait_seconds
    configuration = {
        "run": spec.identity, "nodes": world.nodes, "processes_per_node": world.processes_per_node,
        "gpus": world.device == "cuda", "wait_seconds": budget,
        "tied": shim.started(), "parent": [*interpreter(), "-m", PARENT_MODULE, *setting.rank_command],
        "environment": {SPEC_ENV: str(setting.specification.path)}, "exports": [DIAL_ENV],
    }
    return LauncherProgram(
        "Ray Train", (python, "-m", PROGRAM, json.dumps(configuration)),
        f"give each worker pod {need}, no more and no less",
        own_env=hand_path(setting.environ),
        causes={
            NO_RAY: (
                ExitCode.INVALID_SPEC,
                f"world.rendezvous.kind is ray-head, and {python} has no Ray Train on torch, as its output above says; "
                "use an image whose Python has Ray with Ray Train, and torch",
            ),
            NO_CLUSTER: (
                ExitCode.INTERNAL,
                "no Ray cluster answers: this is the entrypoint of a RayJob, or runs where RAY_ADDRESS names a cluster's head",
            ),
            NO_NODES: (
                ExitCode.PEERS_NEVER_CAME,
                f"the Ray cluster did not come to {world.nodes} nodes with {need} each within {budget:g} s; "
                "look for worker pods that are not scheduled",
            ),
        },
    )
