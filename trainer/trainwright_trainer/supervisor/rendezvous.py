"""Which part a pod plays, by the rendezvous of its run."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trainwright_trainer.contract.exit_codes import ExitCode
from trainwright_trainer.contract.failures import Refusal
from trainwright_trainer.contract.rendezvous import MPIRendezvous, TrackerRendezvous
from trainwright_trainer.contract.spec import World
from trainwright_trainer.supervisor.launchers.elastic import ElasticPart
from trainwright_trainer.supervisor.launchers.mpi import mpi_part
from trainwright_trainer.supervisor.launchers.ray import ray_part
from trainwright_trainer.supervisor.place import PodPlace, pod_place, tasks, tf_place
from trainwright_trainer.supervisor.pod.crew import AGREE_BY_COLLECTIVE, local_crew, static_meeting
from trainwright_trainer.supervisor.role import Part, Setting, check_program
from trainwright_trainer.supervisor.run.attempt import Attempt, OtherPodsHistory, UnlinkedCoordinator
from trainwright_trainer.supervisor.run.coordinator import Coordinator
from trainwright_trainer.supervisor.run.history import History


def part_of(setting: Setting) -> Part:
    """The part of this pod. Raises :class:`Refusal` where the pod and the specification disagree. Needs a running loop."""
    rendezvous = setting.spec.world.rendezvous
    if isinstance(rendezvous, MPIRendezvous):
        return mpi_part(setting, rendezvous)
    if setting.program:
        message = (
            f"`supervise -- {setting.program[0]} …` names a command, and world.rendezvous.kind is {rendezvous.kind}: only "
            "mpi-hostfile has a launcher to start; remove the command from the pod, or let work.command name it"
        )
        raise Refusal(ExitCode.INVALID_SPEC, "NoLauncher", message)
    part = _PARTS[rendezvous.kind](setting)
    check_program(setting.spec.work, setting.environ)
    return part


def _numbered(setting: Setting) -> Part:
    """Static and dmlc-tracker: node 0 is known beforehand, and all supervisors are linked with its own."""
    world = setting.spec.world
    place, meeting = pod_place(setting.environ, world), static_meeting(world)
    if isinstance(world.rendezvous, TrackerRendezvous):
        meeting |= _tracker(world, place)
    return _linked(setting, place, meeting)


def _tracker(world: World, place: PodPlace) -> dict[str, str]:
    """By the names of Kubeflow Trainer (pkg/runtime/framework/plugins/xgboost), whose pods have one worker each."""
    return {
        "DMLC_TRACKER_URI": world.meeting.host, "DMLC_TRACKER_PORT": str(world.meeting.port),
        "DMLC_NUM_WORKER": str(world.size), "DMLC_TASK_ID": str(place.node),
    }


def _by_tf_config(setting: Setting) -> Part:
    """tf-config: the operator names every task. Without ``control_port`` nothing links the supervisors of several pods."""
    spec, environ = setting.spec, setting.environ
    host, port = tasks(environ, spec.world).first
    place, meeting = tf_place(environ, spec.world), {"MASTER_ADDR": host, "MASTER_PORT": port}
    if place.control is not None or spec.world.nodes == 1:
        return _linked(setting, place, meeting)
    history = History(spec) if place.node == 0 else OtherPodsHistory(spec)
    return Attempt(
        setting, place, local_crew(setting, place, {**meeting, **AGREE_BY_COLLECTIVE}), history,
        lambda: UnlinkedCoordinator(spec, setting.specification.sha256, history, setting.measurements),
    )


def _linked(setting: Setting, place: PodPlace, meeting: Mapping[str, str]) -> Part:
    spec, history = setting.spec, History(setting.spec)
    return Attempt(
        setting, place, local_crew(setting, place, meeting), history,
        lambda: Coordinator(spec, setting.specification.sha256, place.pods, history, setting.measurements),
    )


_PARTS: Mapping[str, Callable[[Setting], Part]] = {
    "static": _numbered,
    "dmlc-tracker": _numbered,
    "tf-config": _by_tf_config,
    "c10d": ElasticPart,
    "ray-head": ray_part,
}
