"""Rehearse manifests: check them, play them, and say how it went."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from trainwright.operators import operator
from trainwright.operators.ending import PodEnd, Question
from trainwright.rehearsal.checks.machine import check_addresses, check_libraries, check_ray, check_run
from trainwright.rehearsal.checks.manifests import RENDEZVOUS, check_objects
from trainwright.rehearsal.controller import RunController, RunResult, StopRequest, StopRequests
from trainwright.rehearsal.differences import Difference, leave_out_containers, local_differences
from trainwright.rehearsal.faults.made import Fault, Faults, damage_newest, faults
from trainwright.rehearsal.faults.verdict import Comparison, Verdict, termination_message
from trainwright.rehearsal.networks.bridge import open_network
from trainwright.rehearsal.networks.dns import ClusterDns
from trainwright.rehearsal.observer import Observer, Opening, TrainingLog, parse_event
from trainwright.rehearsal.processes.container import try_namespaces
from trainwright.rehearsal.processes.kubelet import PodRun
from trainwright.rehearsal.processes.ssh import with_keys
from trainwright.rehearsal.progress import ANSWER_SECONDS, Connect, Progress, answer_of, follow
from trainwright.rehearsal.scale import Scaled, scale_down
from trainwright.rehearsal.setting import Options, Setting, Workspace
from trainwright.rehearsal.stated.objects import (
    Blocker,
    CannotPlayError,
    CannotWorkError,
    Slot,
    UsageError,
    find_objects,
    find_specification,
)
from trainwright.rehearsal.stated.pod import Pod
from trainwright.rehearsal.stated.volumes import PathRewriter, claim_folders
from trainwright_trainer.contract import TerminationMessage
from trainwright_trainer.contract.boosting import Boosting
from trainwright_trainer.contract.layout import COMPLETE_MARKER
from trainwright_trainer.contract.training import Training

Status = Literal["Complete", "Failed", "Stopped"]

MEETING_VARIABLES = (
    "MASTER_PORT", "PET_MASTER_PORT", "PET_RDZV_ENDPOINT", "WORKER_PORT", "DMLC_TRACKER_PORT", "JAX_COORDINATOR_ADDRESS",
    "TF_CONFIG", "RAY_PORT",
)
"""Variables that say where ranks meet."""
SIGNAL = "Signal"
COMPLETE_CODE, FAILED_CODE, USAGE_CODE, CANNOT_WORK_CODE, STOPPED_CODE = 0, 1, 2, 3, 143
"""Exit codes of ``trainwright rehearse``."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a rehearsal."""

    status: Status
    reason: str
    """As in the Job's condition: ``CompletionsReached``, ``PodFailurePolicy``, ..."""
    message: str
    pods: tuple[PodEnd, ...]
    """In the order in which they ended."""
    training: TrainingLog
    seconds: float
    differences: tuple[Difference, ...]
    was_complete: bool
    """The workspace held a finished run of this identity, so the pods had nothing to do."""
    verdict: Verdict
    """What became of faults."""

    @classmethod
    def of(cls, result: RunResult, seconds: float, opening: Opening, verdict: Verdict) -> Outcome:
        return cls(*_status(result), result.pods, opening.training, seconds, opening.differences, opening.was_complete, verdict)

    @property
    def exit_code(self) -> int:
        if self.status == "Complete" and self.verdict.not_made:
            return USAGE_CODE
        return {"Complete": COMPLETE_CODE, "Failed": FAILED_CODE, "Stopped": STOPPED_CODE}[self.status]

    @property
    def committed_step(self) -> int | None:
        """The newest step with a committed checkpoint, by the pods' termination messages and rank 0's log."""
        stated = [*(message.committed_step for message in self.termination_messages), self.training.committed_step]
        return max((step for step in stated if step is not None), default=None)

    @property
    def termination_messages(self) -> list[TerminationMessage]:
        """Those that follow the trainer's contract."""
        found = [termination_message(container) for pod in self.pods for container in pod.containers]
        return [message for message in found if message is not None]


def _status(result: RunResult) -> tuple[Status, str, str]:
    """Status, reason and message."""
    if result.end is not None:
        return ("Failed" if result.end.failed else "Complete"), result.end.reason, result.end.message
    stopped = result.stopped or StopRequest("Unknown", "the rehearsal ended before the Job did")
    return ("Stopped" if stopped.reason == SIGNAL else "Failed"), stopped.reason, stopped.message


def rehearse(
    manifests: Sequence[Mapping[str, Any]], workspace: Path, options: Options, observer: Observer | None = None, *,
    foundation: Sequence[Mapping[str, Any]] = (),
) -> Outcome:
    """Play the pods of the one run in ``manifests`` as local processes, until the run is over.

    With faults it is played a second time without them, from a copy of what its volumes held, to compare the two. That one may
    fail, which the verdict says; where it is stopped, the whole is.
    SIGTERM and SIGINT end all pods with their grace period (a second one at once), if this is the main thread.

    Args:
        manifests: the objects of one run.
        workspace: a folder for claims, which stay, and for the pods of this rehearsal.
        options: what the caller chooses.
        observer: is told what happens.
        foundation: objects of the run's namespace, such as the runtime that a TrainJob names.

    Raises:
        CannotWorkError: before any process starts, with every reason that the manifests and this machine show; a CannotPlayError
            where it is not the manifests that are wrong.
        UsageError: the workspace cannot be used, or a fault names nobody.
    """
    outcome, copy = _rehearse(manifests, workspace, options, observer := observer or Observer(), foundation)
    if copy is None or outcome.status != "Complete" or outcome.verdict.not_made:
        return outcome
    observer.comparing()
    other, _ = _rehearse(manifests, copy, options.undisturbed, Observer(), foundation)
    if other.status == "Complete":
        compared = Comparison.of(outcome.verdict.progress.losses, other.verdict.progress.losses)
        return replace(outcome, verdict=replace(outcome.verdict, compared=compared))
    outcome = replace(outcome, verdict=replace(outcome.verdict, not_compared=f"{other.reason}, {other.message}"))
    if other.status == "Stopped":
        return replace(outcome, status=other.status, reason=other.reason, message=other.message)
    return outcome


def _rehearse(
    manifests: Sequence[Mapping[str, Any]], workspace: Path, options: Options, observer: Observer,
    foundation: Sequence[Mapping[str, Any]],
) -> tuple[Outcome, Path | None]:
    """Play it once; with faults returns the workspace with a copy of what volumes held before."""
    scaled, training = _checked(manifests, foundation, options), TrainingLog()
    wanted = faults(options.faults, options.chaos, options.seed, scaled.objects)
    opened = open_network(_meeting_ports(scaled), options.network, try_namespaces)
    with opened as network, (place := Workspace(workspace)).opened():
        if problems := list(check_addresses(scaled.objects, network)):
            raise CannotPlayError(problems)
        if not network.has_names and any(one.kind == "partition" for one in wanted):
            raise UsageError(f"--partition: the pods would be {network.note}, where nothing parts them")
        objects = with_keys(scaled.objects, place.keys)
        setting = Setting(objects, scaled.specification, options, place, ClusterDns(objects, network), network)
        if options.fresh:
            place.empty(setting.writable_claims)
        copy = place.copy(setting.writable_claims) if options.disturbed else None
        differences = (*scaled.differences, *local_differences(setting))
        opening = Opening(setting, scaled.size, differences, _is_complete(setting), training)
        if opening.was_complete and options.disturbed:
            raise UsageError(f"this run is complete in {place.root}, so no fault would reach it: write --fresh to train again")
        observer.opened(opening)
        damaged = damage_newest(setting) if options.corrupt and not wanted else ""
        started = time.monotonic()
        result, verdict = asyncio.run(_play(setting, observer, opening, wanted))
        return Outcome.of(result, time.monotonic() - started, opening, replace(verdict, damaged=damaged)), copy


def _checked(manifests: Sequence[Mapping[str, Any]], foundation: Sequence[Mapping[str, Any]], options: Options) -> Scaled:
    """Check the manifests before they are scaled down, so that what is checked is what the cluster gets."""
    objects, _ = leave_out_containers(find_objects(manifests, foundation), options)
    specification = find_specification(objects.config_maps)
    if problems := list(dict.fromkeys(check_objects(objects, specification, options))):
        raise CannotWorkError(problems)
    scaled = scale_down(objects, options)
    objects, left_out = leave_out_containers(scaled.objects, options)
    for check in (check_run(objects), check_libraries(specification, options.programs), check_ray(objects, options.programs)):
        if problems := list(check):
            raise CannotPlayError(problems)
    return replace(scaled, objects=objects, differences=(*scaled.differences, *left_out))


def _meeting_ports(scaled: Scaled) -> Iterator[int]:
    """Every port where ranks meet, by the specification, by the variables of a launcher, and by the ports of containers."""
    for slot in scaled.objects.slots:
        for container in slot.spec.all_containers:
            yield from (port.container_port for port in container.ports if port.name == RENDEZVOUS)
            for variable in container.env:
                if variable.name in MEETING_VARIABLES:
                    yield from map(int, re.findall(r"(?:^|:)(\d+)\b", variable.value))
    if scaled.specification and (port := getattr(scaled.specification.spec.world.rendezvous, "port", None)):
        yield port


def _is_complete(setting: Setting) -> bool:
    """Whether the state directory holds a COMPLETE marker of this identity, so that the pods end at once."""
    specification = setting.specification
    state = specification.spec.state_directory if specification else None
    spec = next((slot.spec for slot in setting.objects.slots if slot.reads_specification), None)
    if specification is None or state is None or spec is None:
        return False
    claims = claim_folders(spec, spec.main, setting.workspace.claims)
    folder = PathRewriter({**claims, **setting.store_folders})(state)
    with suppress(OSError, ValueError, AttributeError):
        marker = json.loads((Path(folder) / COMPLETE_MARKER).read_text(encoding="utf-8"))
        return bool(marker.get("identity") == specification.spec.identity)
    return False


async def _play(setting: Setting, observer: Observer, opening: Opening, wanted: Sequence[Fault]) -> tuple[RunResult, Verdict]:
    stops, objects, progress = StopRequests(), setting.objects, Progress(total=_steps(setting))

    def on_line(pod: Pod, container: str, line: str) -> None:
        event = parse_event(line)
        if event is None:
            observer.log_line(pod, container, line)
            return
        progress.take(event)
        if pod.slot is objects.leader:
            opening.training.take(event)
        observer.log_event(pod, container, event)

    def never_ready(pod: Pod, reason: str) -> None:
        stops.add(StopRequest("PodNeverReady", f"pod {pod.name} never became ready. {reason}"))

    def create(slot: Slot) -> PodRun:
        def restarting() -> None:
            observer.container_restarts(pod)
            runs.note_restart()

        pod = setting.create_pod(slot)
        return PodRun(
            pod, setting, observer, on_line, ready=lambda: runs.note_ready(slot), never_ready=never_ready, restarting=restarting
        )

    decides = operator.ended(objects.workload, objects.around)
    if decides is None:
        message = f"no pod ends this {objects.workload['kind']}, so that a rehearsal would not"
        raise CannotPlayError([Blocker(objects.where, message, "rehearse the run on another target: --target NAME")])

    def ask(run: PodRun, question: Question) -> str:
        number = run.pod.slot.number
        port = setting.network.port(question.port, number)
        connect = partial(setting.network.connect, number, port, ANSWER_SECONDS)
        return answer_of(connect, question.path).decode(errors="replace")

    runs = RunController(objects.slots, decides, create, observer, stops, setting.options.pace, ask)
    made = Faults(wanted, setting.options.corrupt, setting, progress, runs, stops, observer.disturbed)
    runs.on_decision = made.decided
    with _signals(stops), _time_limit(stops, setting.options.timeout_seconds):
        follows = follow(progress, lambda: _served(setting, runs), observer.pod_served)
        beside = [asyncio.create_task(made.run()), asyncio.create_task(follows)]
        try:
            result = await runs.run()
        finally:
            for task in beside:
                task.cancel()
            ended = await asyncio.gather(*beside, return_exceptions=True)
        for error in ended:
            if isinstance(error, Exception):  # not that it was cancelled
                raise error
        return result, Verdict(tuple(made.incidents), tuple(made.left), progress)


def _steps(setting: Setting) -> int | None:
    """Those that the specification asks for; of epochs and tokens the trainer's log says what they are."""
    work = setting.specification.spec.work if setting.specification else None
    return work.duration.steps if isinstance(work, Training) else work.rounds if isinstance(work, Boosting) else None


def _served(setting: Setting, runs: RunController) -> Iterator[tuple[Pod, Connect]]:
    """Pods whose supervisors serve metrics, and connections to where they do."""
    if setting.specification is not None:
        for number, run in runs.running.items():
            port = setting.network.port(setting.specification.spec.http_port, number)
            yield run.pod, partial(setting.network.connect, number, port, ANSWER_SECONDS)


@contextmanager
def _signals(stops: StopRequests) -> Iterator[None]:
    """SIGTERM and SIGINT become requests to stop, but only in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    under_nohup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    numbers = (signal.SIGTERM, signal.SIGINT, *(() if under_nohup else (signal.SIGHUP,)))
    for number in numbers:
        loop.add_signal_handler(number, stops.add, StopRequest(SIGNAL, f"ended by {number.name}"))
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


@contextmanager
def _time_limit(stops: StopRequests, seconds: float | None) -> Iterator[None]:
    if seconds is None:
        yield
        return
    request = StopRequest("Timeout", f"the rehearsal did not end within {seconds:g} s")
    timer = asyncio.get_running_loop().call_later(seconds, stops.add, request)
    try:
        yield
    finally:
        timer.cancel()
