"""From a specification to a TensorFlow run that is ready to go. TensorFlow is imported only here and below."""

from __future__ import annotations

import os
from collections.abc import Mapping

from trainwright_trainer.contract.failures import InvalidRunError, TopologyMismatchError
from trainwright_trainer.contract.spec import RunSpec
from trainwright_trainer.contract.training import Training
from trainwright_trainer.data.load import load
from trainwright_trainer.observe.sinks import open_sinks
from trainwright_trainer.rank.link import Link
from trainwright_trainer.rank.place import Place, place_from
from trainwright_trainer.supervisor.place import bind_address, tasks
from trainwright_trainer.tensorflow.gathering import gather
from trainwright_trainer.training.checkpointer import Checkpointer, Rank0Alone
from trainwright_trainer.training.loop import Loop
from trainwright_trainer.training.program import Program
from trainwright_trainer.training.reporting import Reporter
from trainwright_trainer.training.start import agreed_attempt, check_data, check_ranks, resume_before


def find_place(spec: RunSpec, environment: Mapping[str, str]) -> Place:
    """The worker's numbers, which must be those of ``TF_CONFIG`` too.

    Raises :class:`InvalidRunError` for other work, and :class:`TopologyMismatchError`.
    """
    _work_of(spec)
    found = tasks(environment, spec.world)
    host, port = found.first
    place = place_from({"MASTER_ADDR": host, "MASTER_PORT": port, **environment}, spec.world)
    if place.rank != found.node:
        raise TopologyMismatchError(f"RANK is {place.rank}, and by TF_CONFIG this is node {found.node}")
    return place


def assemble(spec: RunSpec, place: Place, link: Link, environment: Mapping[str, str]) -> Loop:
    """Meet the other workers and build the loop.

    Raises:
        RankError: Something in the specification cannot be had here; the message says what.
    """
    training = _work_of(spec)
    _prepare(spec)
    from trainwright_trainer.tensorflow.learner import TensorFlowLearner
    from trainwright_trainer.tensorflow.strategy import StrategyGroup, make_strategy, prepare_devices, tensorflow_checks

    prepare_devices(spec.world)
    dataset = load(training.data, training.seed, skip_unreadable=training.skip_unreadable)
    if place.world_size > 1:
        addresses, bind = tasks(environment, spec.world).addresses, bind_address(environment)
        gather(addresses, place.rank, bind, spec.lifecycle.peer_wait_seconds)
    strategy = make_strategy(spec)
    group = StrategyGroup(strategy, place)
    check_ranks(spec, place, link, group, tensorflow_checks(spec.world.device, strategy, group))
    check_data(group, dataset.fingerprint)
    report = Reporter(place, link, open_sinks(spec, leads=place.leads), dataset.unreadable)
    learner = TensorFlowLearner(training, spec.world, place, link, report, group, strategy, dataset)
    checkpoints = Checkpointer(
        spec, training.checkpoints, learner, link, place,
        reading=Rank0Alone(place, group),
        writing=Rank0Alone(place, group),
        attempt=agreed_attempt(environment, group),
        fingerprint=dataset.fingerprint,
        resume_before=resume_before(environment),
    )
    every = training.evaluation.every_steps
    return Loop(
        spec=spec, settings=training.checkpoints, evaluate_every=every, place=place, link=link, report=report,
        group=group, learner=learner, checkpoints=checkpoints,
    )


def _work_of(spec: RunSpec) -> Training:
    if not isinstance(spec.work, Training) or spec.work.engine != "tensorflow":
        raise InvalidRunError("the work is not for engine tensorflow, and this program runs no other: let the supervisor choose")
    if spec.world.processes_per_node != 1:
        raise InvalidRunError(
            f"world.processes_per_node is {spec.world.processes_per_node}: a worker of MultiWorkerMirroredStrategy drives all "
            "GPUs of its node; set it to 1, and world.replicas_per_process to the GPUs"
        )
    return spec.work


def _prepare(spec: RunSpec) -> None:
    """What TensorFlow and Keras read when they are imported."""
    os.environ["KERAS_BACKEND"] = "tensorflow"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # its errors and nothing else: what matters is in our own lines
    if spec.world.device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"


TENSORFLOW = Program(find_place, assemble)
"""The program of engine ``tensorflow``."""
