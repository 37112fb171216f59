"""Which role a pod plays, by the rendezvous of its run."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trainwright_trainer.contract.exit_codes import ExitCode
from trainwright_trainer.contract.failures import PodError
from trainwright_trainer.contract.rendezvous import MPIRendezvous, TrackerRendezvous
from trainwright_trainer.contract.spec import World
from trainwright_trainer.supervisor.launchers.elastic import ElasticRole
from trainwright_trainer.supervisor.launchers.mpi import mpi_role
from trainwright_trainer.supervisor.launchers.ray import ray_role
from trainwright_trainer.supervisor.place import PodPlace, pod_place, tasks, tf_place
from trainwright_trainer.supervisor.pod.launcher import AGREE_BY_COLLECTIVE, local_launcher, static_rendezvous
from trainwright_trainer.supervisor.run.attempt import Role, connected_attempt, lone_attempt
from trainwright_trainer.supervisor.setting import Setting, check_program


def role_of(setting: Setting) -> Role:
    """The role of this pod. Raises :class:`PodError` where the pod and the specification disagree. Needs a running loop."""
    rendezvous = setting.spec.world.rendezvous
    if isinstance(rendezvous, MPIRendezvous):
        return mpi_role(setting, rendezvous)
    if setting.program:
        message = (
            f"`supervise -- {setting.program[0]} …` names a command, and world.rendezvous.kind is {rendezvous.kind}: only "
            "mpi-hostfile has a launcher to start; remove the command from the pod, or let work.command name it"
        )
        raise PodError(ExitCode.INVALID_SPEC, "NoLauncher", message)
    role = _ROLES[rendezvous.kind](setting)
    check_program(setting.spec.work, setting.environ)
    return role


def _numbered(setting: Setting) -> Role:
    """Static and dmlc-tracker: node 0 is known beforehand, and all supervisors are connected to its own."""
    world = setting.spec.world
    place, rendezvous_env = pod_place(setting.environ, world), static_rendezvous(world)
    if isinstance(world.rendezvous, TrackerRendezvous):
        rendezvous_env |= _tracker(world, place)
    return connected_attempt(setting, place, local_launcher(setting, place, rendezvous_env))


def _tracker(world: World, place: PodPlace) -> dict[str, str]:
    """By the names of Kubeflow Trainer (pkg/runtime/framework/plugins/xgboost), whose pods have one worker each."""
    return {
        "DMLC_TRACKER_URI": world.meeting.host, "DMLC_TRACKER_PORT": str(world.meeting.port),
        "DMLC_NUM_WORKER": str(world.size), "DMLC_TASK_ID": str(place.node),
    }


def _by_tf_config(setting: Setting) -> Role:
    """tf-config: the operator names every task. Without ``control_port`` nothing connects the supervisors of several pods."""
    spec, environ = setting.spec, setting.environ
    host, port = tasks(environ, spec.world).first
    place, rendezvous_env = tf_place(environ, spec.world), {"MASTER_ADDR": host, "MASTER_PORT": port}
    if place.control is not None or spec.world.nodes == 1:
        return connected_attempt(setting, place, local_launcher(setting, place, rendezvous_env))
    return lone_attempt(setting, place, local_launcher(setting, place, {**rendezvous_env, **AGREE_BY_COLLECTIVE}))


_ROLES: Mapping[str, Callable[[Setting], Role]] = {
    "static": _numbered,
    "dmlc-tracker": _numbered,
    "tf-config": _by_tf_config,
    "c10d": ElasticRole,
    "ray-head": ray_role,
}
