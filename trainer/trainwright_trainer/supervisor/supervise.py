"""The supervisor of one pod, from the specification to the exit code."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from trainwright_trainer import __version__, log, signals
from trainwright_trainer.contract.exit_codes import ExitCode
from trainwright_trainer.contract.spec import Script
from trainwright_trainer.contract.termination import Cause
from trainwright_trainer.log import get_log
from trainwright_trainer.supervisor.background import in_background
from trainwright_trainer.supervisor.children import adopt_orphans, reap, sweep
from trainwright_trainer.supervisor.coordinator import Coordinator, Peer
from trainwright_trainer.supervisor.environment import rank_environment
from trainwright_trainer.supervisor.history import History
from trainwright_trainer.supervisor.hub import Hub
from trainwright_trainer.supervisor.measurements import Measurements
from trainwright_trainer.supervisor.place import pod_place
from trainwright_trainer.supervisor.pod import Pod
from trainwright_trainer.supervisor.probes import serve_probes
from trainwright_trainer.supervisor.program import check_launcher, check_program
from trainwright_trainer.supervisor.rank_process import RankProcess
from trainwright_trainer.supervisor.refusal import Refusal
from trainwright_trainer.supervisor.report import UNKNOWN, Report
from trainwright_trainer.supervisor.specification import read_specification, refuse_missing, specification_path
from trainwright_trainer.supervisor.spoke import Spoke
from trainwright_trainer.supervisor.wire import Downward, Finished, Leave, Upward

TRAINER_COMMAND = (sys.executable, "-m", "trainwright_trainer.rank")
FAREWELL_SECONDS = 6.0
"""For the other pods to leave before node 0 does: their patience with their ranks, and a little more."""
FLUSH_SECONDS = 2.0
LEDGER_SECONDS = 5.0


def supervise(
    environ: Mapping[str, str], path: Path | None = None, program: Sequence[str] = (),
    trainer_command: Sequence[str] = TRAINER_COMMAND,
) -> int:
    """Run this pod's part of a run. Blocks, and owns the process: its signals, and all of its children.

    Args:
        environ: The pod's environment.
        path: The specification; by default where the environment says.
        program: The command after ``supervise --``: what a pod under mpirun is to start.
        trainer_command: What to start as each rank of a run of ``kind: trainer``.

    Returns:
        The exit code, one of :class:`ExitCode`; the termination message carries the same. Never raises. SIGTERM and SIGINT are
        held from then on: they come too late to change the code.
    """
    report = Report(environ)
    log.configure(UNKNOWN, UNKNOWN)
    try:
        return asyncio.run(_Supervisor(environ, path or specification_path(environ), program, trainer_command, report).run())
    except Refusal as refusal:
        return report.write(refusal.code, refusal.cause)
    except KeyboardInterrupt:
        cause = Cause(kind="ToldToEnd", message="told to end by SIGINT before the run began")
        return report.write(ExitCode.PREEMPTED_NOT_SAVED, cause)
    except Exception as error:
        get_log().error("supervisor_failed", exc_info=error)
        return report.write(ExitCode.INTERNAL, _unexpected(error))


class _Supervisor:
    def __init__(
        self, environ: Mapping[str, str], path: Path, program: Sequence[str], trainer_command: Sequence[str], report: Report
    ) -> None:
        self._environ, self._trainer_command, self._report = environ, trainer_command, report
        self._path, self._program = path, program
        self._measurements = Measurements()
        self._hub: Hub | None = None
        self._coordinator: Coordinator | None = None
        self._spoke: Spoke | None = None

    async def run(self) -> int:
        self._specification = specification = read_specification(self._path)
        spec = self._report.spec = specification.spec
        log.configure(spec.run, spec.identity)
        refuse_missing(spec)
        check_launcher(self._program, spec.world)
        self._place = pod_place(self._environ, spec.world)
        self._report.node = self._place.node
        self._configure_log(None)
        check_program(spec.work, self._environ)
        serve_probes(self._place.bind, spec.http_port, self._measurements)
        get_log().info("supervisor_started", version=__version__, nodes=spec.world.nodes, processes=spec.world.processes_per_node)

        history = History(spec)
        pod = self._pod = Pod(spec, self._place, self._spawn_ranks, self._measurements, history.is_complete)
        self._watch_process(pod)
        taking_part = in_background(self._take_part(pod, history))
        decided = await pod.ended

        sweep()
        self._report.attempt, self._report.step, self._report.committed_step = pod.attempt, pod.step, pod.committed_step
        code = self._report.write(decided.code, decided.cause)
        ends = await asyncio.gather(
            self._note_end(history, decided.code), self._say_farewell(taking_part), return_exceptions=True
        )
        for error in ends:  # the code is said, and what goes wrong now does not change it
            if error is not None:
                get_log().warning("farewell_failed", exc_info=error)
        signals.hold()
        return code

    def _watch_process(self, pod: Pod) -> None:
        loop = asyncio.get_running_loop()
        adopt_orphans()
        loop.add_signal_handler(signal.SIGCHLD, reap, pod.child_ended)
        for number in signals.ENDING:
            loop.add_signal_handler(number, pod.told_to_end, number.name)
        signals.release()

        def on_error(_loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
            error = context.get("exception")
            pod.fail(_unexpected(error if isinstance(error, BaseException) else RuntimeError(str(context.get("message")))))
            get_log().error("supervisor_failed", exc_info=error, reason=str(context.get("message")))

        loop.set_exception_handler(on_error)

    async def _take_part(self, pod: Pod, history: History) -> None:
        """Everything between a valid specification and the first word of node 0."""
        try:
            if await history.is_complete():
                get_log().info("already_complete")
                pod.heard(Finished())
            elif self._place.leads:
                await self._lead(pod, history)
            else:
                specification = self._specification
                self._spoke = Spoke(specification.spec, specification.sha256, self._place, pod)
                await self._spoke.follow()
        except Refusal as refusal:
            pod.heard(Leave(code=refusal.code, cause=refusal.cause, patience_seconds=0))

    async def _lead(self, pod: Pod, history: History) -> None:
        spec, loop = self._specification.spec, asyncio.get_running_loop()
        self._coordinator = coordinator = Coordinator(spec, self._specification.sha256, history, self._measurements)
        if spec.world.nodes > 1:
            self._hub = Hub(coordinator, spec.lifecycle.peer_lost_seconds)
            await self._hub.listen(self._place.bind, spec.world.meeting.control_port)

        # Through the loop, as if over a wire: neither is called while it is in the middle of something.
        def to_pod(message: Downward) -> None:
            loop.call_soon(pod.heard, message)

        def to_coordinator(message: Upward) -> None:
            loop.call_soon(coordinator.heard, own, message)

        own = Peer(0, self._place.host, to_pod)
        pod.connect(to_coordinator)
        coordinator.add_own_pod(own)

    def _spawn_ranks(self, attempt: str) -> list[RankProcess]:
        spec, node = self._specification.spec, self._place.node
        self._configure_log(attempt)
        command = spec.work.command if isinstance(spec.work, Script) else self._trainer_command
        ranks = []
        for local_rank in range(spec.world.processes_per_node):
            rank = RankProcess(node * spec.world.processes_per_node + local_rank, self._pod.rank_said)
            environment = rank_environment(
                self._environ, spec.world, node=node, local_rank=local_rank, attempt=attempt,
                specification=self._specification.path, link=rank.link_descriptor,
            )
            rank.spawn(command, environment)
            ranks.append(rank)
        get_log().info("ranks_started", ranks=[rank.number for rank in ranks], pids=[rank.pid for rank in ranks])
        return ranks

    async def _note_end(self, history: History, code: ExitCode) -> None:
        if self._coordinator is None or self._coordinator.attempt is None:
            return
        try:
            await asyncio.wait_for(history.end(self._coordinator.attempt, code, self._pod.committed_step), LEDGER_SECONDS)
        except (Refusal, TimeoutError) as error:
            get_log().warning("ledger_not_written", reason=str(error) or "the volume did not answer")

    async def _say_farewell(self, taking_part: asyncio.Task[None]) -> None:
        """Let the last word arrive; node 0 leaves after the others, who would take its absence for a failure."""
        if self._hub is not None:
            await self._hub.close(self._farewell_seconds())
        if self._spoke is not None and self._spoke.connected:
            self._spoke.finish()
            await asyncio.wait({taking_part}, timeout=FLUSH_SECONDS)
        taking_part.cancel()

    def _farewell_seconds(self) -> float:
        if self._coordinator is None or self._coordinator.attempt is None:
            return 0  # nothing has begun: whoever waits goes on waiting for the next node 0
        if self._pod.deadline is None:
            return FAREWELL_SECONDS
        return max(0.0, self._pod.deadline - asyncio.get_running_loop().time()) + 1  # others may still be saving

    def _configure_log(self, attempt: str | None) -> None:
        spec = self._specification.spec
        log.configure(spec.run, spec.identity, attempt, self._place.node)


def _unexpected(error: BaseException) -> Cause:
    kind, lines = type(error).__name__, str(error).strip().splitlines()
    return Cause(kind=kind, message=f"unexpected error in the supervisor: {kind}: {lines[0] if lines else 'no message'}")
