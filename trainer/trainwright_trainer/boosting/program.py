"""From a specification to a boosting run that is ready to go. XGBoost is imported only here and below."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from trainwright_trainer.boosting.table import DataShard, files_of, fingerprint, read_shard
from trainwright_trainer.contract.boosting import Boosting
from trainwright_trainer.contract.failures import InvalidRunError
from trainwright_trainer.contract.spec import RunSpec, TrackerRendezvous
from trainwright_trainer.rank.ending import fail, leave
from trainwright_trainer.rank.link import Link
from trainwright_trainer.rank.place import Place, place_from
from trainwright_trainer.rank.preflight import Checks
from trainwright_trainer.rank.preflight.device import HostBuffer, HostMatrices, HostMemory
from trainwright_trainer.training.checkpointer import Checkpointer, Rank0Alone
from trainwright_trainer.training.loop import Loop
from trainwright_trainer.training.program import Program
from trainwright_trainer.training.reporting import Reporter
from trainwright_trainer.training.start import agreed_attempt, check_data, check_ranks, resume_before

if TYPE_CHECKING:
    from trainwright_trainer.boosting.group import Workers


def find_place(spec: RunSpec, environment: Mapping[str, str]) -> Place:
    """The worker's numbers. Raises :class:`InvalidRunError` for other work, and :class:`TopologyMismatchError`."""
    _, tracker = _work_of(spec)
    # A worker meets the others at the tracker; it needs nothing of torch's, and is content where nobody set it.
    return place_from({"MASTER_ADDR": tracker.host, "MASTER_PORT": str(tracker.port), **environment}, spec.world)


def assemble(spec: RunSpec, place: Place, link: Link, environment: Mapping[str, str]) -> Loop:
    """Start the tracker on rank 0, read this worker's rows, meet the other workers, and build the loop.

    Raises:
        RankError: Something in the specification cannot be had here; the message says what.
    """
    from trainwright_trainer.boosting.group import Tracker, meet
    from trainwright_trainer.boosting.learner import BoostingLearner, matrix

    work, rendezvous = _work_of(spec)
    tracker = Tracker(rendezvous.port, spec.world.size, environment) if place.leads and spec.world.size > 1 else None
    # Before the workers meet: one that reads for minutes must not hold up the others in a collective.
    shard = DataShard(place.rank, place.world_size)
    rows = read_shard(work.data, work.booster, shard)
    held_out = read_shard(work.data, work.booster, shard, evaluation=True) if work.data.evaluation_path else None
    group = meet(rendezvous, place, spec.lifecycle, tracker, lambda error: leave(fail(error, environment, link)))
    check_ranks(spec, place, link, group, _checks(spec.world.device, group))
    digest = fingerprint(work.data, files_of(work.data.path))
    check_data(group, digest)
    [total] = group.reduce_sums([len(rows)])
    train = matrix(rows)
    learner = BoostingLearner(
        work, spec.world.device, _threads(environment), place, link, group, total_rows=int(total), train=train,
        held_out=None if held_out is None else matrix(held_out, train),
    )
    checkpoints = Checkpointer(
        spec, work.checkpoints, learner, link, place,
        reading=Rank0Alone(place, group),
        writing=Rank0Alone(place, group),
        attempt=agreed_attempt(environment, group),
        fingerprint=digest,
        resume_before=resume_before(environment),
    )
    report = Reporter(place, link)
    return Loop(
        spec=spec, settings=work.checkpoints, evaluate_every=learner.evaluate_every, place=place, link=link, report=report,
        group=group, learner=learner, checkpoints=checkpoints,
    )


def _work_of(spec: RunSpec) -> tuple[Boosting, TrackerRendezvous]:
    if not isinstance(spec.work, Boosting) or not isinstance(spec.world.rendezvous, TrackerRendezvous):
        raise InvalidRunError(f"work.kind is {spec.work.kind}, and this program runs xgboost: let the supervisor choose")
    if spec.world.processes_per_node != 1:
        raise InvalidRunError(
            f"world.processes_per_node is {spec.world.processes_per_node}: XGBoost has one process a node, which uses all of its "
            "cores or its one GPU; set it to 1"
        )
    return spec.work, spec.world.rendezvous


def _checks(device: str, group: Workers) -> Checks:
    """XGBoost has no matrix product, and so nothing to check a GPU with but what its driver says."""
    on_host = device == "cpu"
    return Checks(
        device, HostMatrices if on_host else None, HostMemory if on_host else None, lambda: HostBuffer(group.reduce_array)
    )


def _threads(environment: Mapping[str, str]) -> int | None:
    """XGBoost counts cores by itself and does not look at OMP_NUM_THREADS, which the supervisor and the plan set."""
    text = environment.get("OMP_NUM_THREADS", "")
    return int(text) if text.isdecimal() and int(text) else None


BOOSTING = Program(find_place, assemble)
"""The program of ``work.kind: xgboost``."""
