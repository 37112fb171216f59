"""One pod of a run: reacts to its ranks, to node 0 and to signals. Never waits, so that nothing can come too late.

Its life: *waiting* for node 0's ``start``, *running* its ranks, *done* once all of them ended with 0 and others still work,
*ended* where the run recovers in place and node 0 has yet to say whether another attempt follows, *over*.
Node 0 is a pod like the others: its own :class:`Coordinator` talks to it by the same messages.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Literal

from trainwright_trainer.checkpoint.ledger import PREEMPTIONS
from trainwright_trainer.contract.exit_codes import Cause, Disposition, ExitCode, codes_with
from trainwright_trainer.contract.failures import PodError
from trainwright_trainer.contract.spec import RunSpec, Script
from trainwright_trainer.observe import log
from trainwright_trainer.observe.log import get_log
from trainwright_trainer.observe.metrics import Measurements
from trainwright_trainer.rank.messages import (
    Act,
    Ask,
    At,
    Carry,
    Committed,
    FromRankMessage,
    Given,
    Measured,
    Pause,
    Result,
    ToRankMessage,
    Wanted,
)
from trainwright_trainer.supervisor.event_loop import Timers, in_background, in_daemon_thread
from trainwright_trainer.supervisor.place import PodPlace
from trainwright_trainer.supervisor.pod.launcher import Launcher
from trainwright_trainer.supervisor.pod.observer import CHECK_SECONDS, Observer, PositionQuery, dump
from trainwright_trainer.supervisor.pod.outcome import PodOutcome, RankOutcome, outcome_after_sigterm, outcome_of, pod_outcome
from trainwright_trainer.supervisor.pod.rank import Rank
from trainwright_trainer.supervisor.wire.messages import (
    Bye,
    Downward,
    Dump,
    EndRequested,
    Finished,
    Leave,
    Position,
    Saved,
    Start,
    Terminate,
    Upward,
    Verdict,
    leave_without_peer,
)

SIBLING_SECONDS, KNOWN_SECONDS = 3.0, 1.0
"""How long the other ranks of a pod have, after one failed, to report what they know: less where that one's code names a cause
of its own, since they may wait in a collective for as long."""
NEWS_SECONDS = 5.0
"""How long a pod whose ranks may only have lost a peer waits to hear which one. Longer than ``SIBLING_SECONDS``, which that peer
may take."""
EXIT_SECONDS = 30.0
"""Between a rank's result and its end. After that it hangs in teardown and is killed; its result stands."""
MARGIN_SECONDS = 3.0
"""Of the grace period, for the supervisor itself."""
REAP_SECONDS = 10.0
"""Between SIGKILL and the end of a rank. What takes longer sleeps uninterruptibly, in a driver or on a volume."""
ENDS_POD = frozenset({*codes_with(Disposition.PERMANENT), ExitCode.NODE_UNHEALTHY})
"""Codes of a rank that its pod ends with, also where the run recovers in place."""
ENDS_QUIETLY = frozenset({ExitCode.DONE, *PREEMPTIONS})
"""Codes of a rank that do not end the others of its pod."""
MARKER_SECONDS = 30.0
"""How often a pod that is done checks whether the run is marked complete; then it waits for nobody."""


def not_reaped(place: PodPlace, left: Sequence[str]) -> PodOutcome:
    """Processes outlive SIGKILL: what they hold, a GPU or a volume, is not free for another attempt on this node."""
    message = f"{', '.join(left)} of {place} did not end within {REAP_SECONDS:g} s of SIGKILL; look at the node's drivers"
    get_log().error("node_unhealthy", host=place.host, reason=message)
    return PodOutcome(ExitCode.NODE_UNHEALTHY, Cause(kind="NodeUnhealthy", message=message))


class Pod:
    """``ended`` gets the outcome once no rank of this pod runs any more."""

    def __init__(
        self, spec: RunSpec, place: PodPlace, launcher: Launcher, measurements: Measurements,
        is_complete: Callable[[], Awaitable[bool]],
    ) -> None:
        self.ended: asyncio.Future[PodOutcome] = asyncio.get_running_loop().create_future()
        self.attempt: str | None = None
        self.deadline: float | None = None
        """On the loop's clock, when nothing may run any more; None until the run is told to end."""
        self.ranks: Sequence[Rank] = ()
        self._spec, self._place, self._launcher, self._is_complete = spec, place, launcher, is_complete
        self._measurements = measurements
        self._state: Literal["waiting", "running", "done", "ended", "over"] = "waiting"
        self._send_up: Callable[[Upward], None] = lambda message: None
        self._committed_before: int | None = None
        self._told: Cause | None = None
        self._stopping: Cause | None = None
        self._order: PodOutcome | None = None
        self._decided: PodOutcome | None = None
        """What the pod ends with, once nothing of it runs, unless another attempt follows."""
        self._node_0_is_lost = False
        self._query: PositionQuery | None = None
        self._observer: Observer | None = None
        self._signalled = False
        """Whether the ranks of a script were told to end by SIGTERM."""
        self._failed = False
        self._news_may_come = False
        self._timers = Timers()
        self._marker_watch: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> bool:
        return self._state == "waiting"

    @property
    def committed_step(self) -> int | None:
        """As the ranks last said, or as it was before the attempt."""
        known = [rank.committed_step for rank in self.ranks if rank.committed_step is not None]
        return max(known, default=self._committed_before)

    @property
    def step(self) -> int | None:
        return max((rank.step for rank in self.ranks if rank.step is not None), default=None)

    def connect(self, send_up: Callable[[Upward], None]) -> None:
        """From now on node 0 is reached this way."""
        self._send_up = send_up

    # --- what happens to the pod ----------------------------------------------------------------------------------------------

    def told_to_end(self, signal_name: str) -> None:
        """SIGTERM or SIGINT: the whole run ends in an orderly way, within this pod's grace period. Later ones change nothing."""
        if self._told is not None or self._state == "over":
            return
        self._told = cause = Cause(kind="ToldToEnd", message=f"{self._place} was told to end by {signal_name}")
        get_log().warning("told_to_end", signal=signal_name)
        if self._state == "waiting":
            self._say_bye(PodOutcome(ExitCode.PREEMPTED_NOT_SAVED, cause))
        elif self._decided is not None and self._state == "ended":
            self._end(self._decided if self._decided.code in PREEMPTIONS else PodOutcome(ExitCode.PREEMPTED_NOT_SAVED, cause))
        else:
            self._limit_time()
            self._send_up(EndRequested(why=cause.message))

    def lost_node_0(self, why: str, silent: bool) -> None:
        """The connection to node 0 ended during the run."""
        self._node_0_is_lost = True
        if self._state == "over":
            return
        if self._state == "ended" and self._decided is not None:
            self._end(replace(self._decided, again=True))
            return
        if self._stopping and isinstance(self._spec.work, Script) and self._state == "running":
            self._signal_ranks()
            return  # each script ends by itself, within the grace period
        cause = Cause(kind="PeerLost", message=f"node 0 ({self._place.control_host}) is lost: {why}")
        get_log().error("peer_lost", peer=0, reason=why)
        self._obey(leave_without_peer(cause, silent=silent))

    def fail(self, cause: Cause) -> None:
        """Something unexpected in the supervisor itself: kill the ranks and end. In place, the pod's controller counts it."""
        for rank in self.ranks:
            rank.kill()
        if self._state not in ("ended", "over"):  # then it has said what the attempt ended with here
            self._send_up(Bye(code=ExitCode.PEER_LOST if self._recovers else ExitCode.INTERNAL, cause=cause))
        if self._state != "over":
            self._end(PodOutcome(ExitCode.INTERNAL, cause))

    def heard(self, message: Downward) -> None:
        """What node 0 says."""
        match message:
            case Start():
                self._start(message)
            case Pause():
                self._ask_positions(message)
            case Act() | Carry() | Ask() | Given():
                self._pass_on(message)
                for rank in self.ranks if isinstance(message, Given) else ():
                    rank.wanted = None
                if isinstance(message, Carry) and self._stopping is not None and isinstance(self._spec.work, Script):
                    self._signal_ranks()  # there is no boundary at which all would stop
            case Terminate(cause=cause):
                self._begin_to_stop(self._told or cause)
                if not self._all_listen:
                    self._signal_ranks()
            case Dump():
                in_background(self._dump())
            case Leave():
                self._obey(message)
            case Verdict():
                self._follow(message)
            case Finished() if self._state in ("waiting", "done"):
                self._end(PodOutcome(ExitCode.DONE))

    def rank_said(self, rank: Rank, message: FromRankMessage) -> None:
        """A message from one of the ranks, already noted by it."""
        if self._observer is not None and (news := self._observer.heard(rank, message, self._now())) is not None:
            self._send_up(news)
        match message:
            case Measured(values=values):
                self._measurements.update(values, rank.number)
            case Committed(step=step, seconds=seconds):
                self._measurements.update({"trainwright_committed_step": step})
                if seconds > 0:  # 0: restored, not saved
                    self._measurements.update({"trainwright_checkpoint_save_seconds": seconds})
                    self._send_up(Saved(step=step))
            case At(request=request, tick=tick):
                if self._query is not None:
                    self._query.answer(rank, request, tick)
            case Wanted():
                self._collect_wishes(message)
            case Result():
                rank.outcome = outcome_of(rank.number, self._spec.work, message, None, self._now())
                self._timers.after(EXIT_SECONDS, rank.kill)
                self._note_failure(rank)
        self._answer_query()

    def child_ended(self, pid: int, status: int) -> None:
        """A child was reaped; it may be an orphan that nobody here started."""
        self._launcher.child_ended(pid, status)

    def leave(self, code: ExitCode, cause: Cause) -> None:
        """The ranks cannot work together: end with this code."""
        self._obey(Leave(code=code, cause=cause, patience_seconds=0))

    def rank_lost(self, rank: Rank, why: str) -> None:
        """A rank that runs elsewhere is gone, and nobody knows how it ended."""
        if rank.outcome is None and not rank.killed:
            cause = Cause(rank=rank.number, kind="PeerLost", message=f"rank {rank.number} is lost: {why}")
            rank.outcome = RankOutcome(rank.number, ExitCode.PEER_LOST, self._now(), cause)
        self._count_alive()
        self._note_failure(rank)
        self._answer_query()
        self.end_if_all_ended()

    def rank_ended(self, rank: Rank, status: int) -> None:
        """The process of a rank ended by itself or was killed; the status is negative for a signal."""
        self._count_alive()
        if rank.outcome is None and not rank.killed:
            rank.outcome = self._outcome(rank, status)
        code = int(rank.outcome.code) if rank.outcome else None
        get_log().info("rank_ended", rank=rank.number, status=status, code=code, killed=rank.killed)
        self._note_failure(rank)
        if (waits := next((other.wanted for other in self.ranks if other.alive and other.wanted), None)) and code in ENDS_QUIETLY:
            self._collect_wishes(waits)
        self._answer_query()
        self.end_if_all_ended()

    # --- what it does ---------------------------------------------------------------------------------------------------------

    def _start(self, start: Start) -> None:
        if self._state != "waiting":
            return
        self.attempt, self._committed_before, self._state = start.attempt, start.committed_step, "running"
        log.configure(self._spec.run, self._spec.identity, start.attempt, self._place.node)
        try:
            self.ranks = self._launcher.start(start, self)
        except OSError as error:
            cause = Cause(kind="CannotSpawn", message=f"cannot start a rank: {error.strerror or error}")
            self._say_bye(PodOutcome(ExitCode.INTERNAL, cause))  # the role kills what was started
            return
        self._count_alive()
        self._observer = Observer(self._spec, self.ranks, start.past, self._measurements, self._now())
        self._look_for_hangs(self._observer)

    def _look_for_hangs(self, observer: Observer) -> None:
        if self._stopping is not None or self._order is not None or self._failed:
            return  # what ends has a limit of its own
        if (stuck := observer.stuck(self._now())) is not None:
            get_log().error("hang", rank=stuck.rank, reason=stuck.why)
            self._send_up(stuck)
        else:
            self._timers.after(CHECK_SECONDS, lambda: self._look_for_hangs(observer))

    async def _dump(self) -> None:
        self._send_up(await dump(self._spec, self._place, self.attempt or "", self.ranks))

    @property
    def _all_listen(self) -> bool:
        """Whether ranks are asked at which boundary they stop. Ranks of our trainer are, and scripts that say so."""
        return not isinstance(self._spec.work, Script) or all(rank.listens for rank in self.ranks)

    def _signal_ranks(self) -> None:
        self._signalled = True
        for rank in self.ranks:
            rank.tell_to_end()

    def _outcome(self, rank: Rank, status: int) -> RankOutcome:
        work = self._spec.work
        if self._signalled and isinstance(work, Script):
            return outcome_after_sigterm(rank.number, work, status, self._now())
        outcome = outcome_of(rank.number, work, rank.result, status, self._now())
        return outcome if rank.last_words is None else outcome.with_last_words(rank.last_words.read())

    def _collect_wishes(self, message: Wanted) -> None:
        """Once all ranks of this pod wait for an answer, or will never, node 0 hears it."""
        wishes = [rank.wanted for rank in self.ranks if rank.wanted is not None and rank.wanted.request == message.request]
        done = [rank.number for rank in self.ranks if rank.outcome is not None and rank.outcome.code in ENDS_QUIETLY]
        if len(wishes) < len(self.ranks) and not done:
            return
        other = next((wish for wish in wishes if (wish.what, wish.step) != (message.what, message.step)), None)
        if done:
            differs = f"rank {done[0]} has ended, and others of {self._place.short} want {message.what} of step {message.step}"
            message = message.model_copy(update={"differs": differs})
        elif other is not None:
            two = f"{message.what} of step {message.step}, and another {other.what} of step {other.step}"
            message = message.model_copy(update={"differs": f"a rank of {self._place.short} wants {two}"})
        in_background(self._send_wish(message))

    async def _send_wish(self, message: Wanted) -> None:
        if message.what == "commit":
            await in_daemon_thread(os.sync)  # a commit fsyncs each file, on node 0's machine alone
        self._send_up(message)

    def _ask_positions(self, pause: Pause) -> None:
        if not self._all_listen:
            self._send_up(Position(request=pause.request, absent=f"the script of {self._place.short} does not ask when to stop"))
            return
        self._query = PositionQuery(pause.request, self._place.short, self.ranks)
        self._pass_on(pause)
        self._answer_query()

    def _answer_query(self) -> None:
        if self._query is not None and (position := self._query.position()) is not None:
            self._query = None
            self._send_up(position)

    def _pass_on(self, message: ToRankMessage) -> None:
        for rank in self.ranks:
            rank.say(message)

    def _begin_to_stop(self, cause: Cause) -> None:
        if self._state == "waiting":
            self._say_bye(PodOutcome(ExitCode.PREEMPTED_NOT_SAVED, cause))
        elif self._stopping is None:
            self._stopping = cause
            self._limit_time()

    def _limit_time(self) -> None:
        if self.deadline is None:
            grace = self._spec.lifecycle.grace_seconds
            seconds = max(grace - MARGIN_SECONDS, grace / 2)
            self.deadline = self._now() + seconds
            self._timers.after(seconds, self._out_of_time)

    def _out_of_time(self) -> None:
        message = f"not everything was saved within the grace period of {self._spec.lifecycle.grace_seconds:g} s"
        cause = Cause(kind="OutOfTime", message=message)
        get_log().error("out_of_time", grace_seconds=self._spec.lifecycle.grace_seconds)
        self._stopping = cause
        self.leave(ExitCode.PREEMPTED_NOT_SAVED, cause)

    def _obey(self, order: Leave) -> None:
        """End with this code, unless a rank of this pod failed by itself and says so within the patience."""
        ordered = PodOutcome(ExitCode(order.code), order.cause)
        if self._state == "waiting":
            self._end(replace(ordered, again=order.again and self._recovers))
            return
        if self._order is None:
            self._order = ordered
        if self._state == "done" and (not self._recovers or self._node_0_is_lost):
            self._watch_marker(0, replace(ordered, again=self._recovers))
        elif self._state == "running":
            if order.patience_seconds > 0:
                self._timers.after(order.patience_seconds, self._kill_ranks)
            else:
                self._kill_ranks()
            self.end_if_all_ended()

    def _kill_ranks(self) -> None:
        for rank in self.ranks:
            rank.kill()
        if any(rank.alive and rank.pid is not None for rank in self.ranks):
            self._timers.after(REAP_SECONDS, self._not_reaped)

    def _not_reaped(self) -> None:
        if left := [rank for rank in self.ranks if rank.alive and rank.pid is not None]:
            self._say_bye(not_reaped(self._place, [f"rank {rank.number} (process {rank.pid})" for rank in left]))

    def _note_failure(self, rank: Rank) -> None:
        """The first failure of a rank starts the clock for the others."""
        if self._failed or rank.outcome is None or rank.outcome.code is ExitCode.DONE:
            return
        preempted = rank.outcome.code in (ExitCode.PREEMPTED_SAVED, ExitCode.PREEMPTED_NOT_SAVED)
        if self._stopping is not None and (preempted or isinstance(self._spec.work, Script)):
            return  # the others are ending too, each in its own time; the deadline bounds it
        self._failed = True
        echoes = rank.outcome.aborted or preempted or rank.outcome.code is ExitCode.PEER_LOST
        self._timers.after(SIBLING_SECONDS if echoes else KNOWN_SECONDS, self._kill_ranks)
        if self._place.pods > 1:
            self._news_may_come = True
            self._timers.after(NEWS_SECONDS, self._no_news)

    def _no_news(self) -> None:
        self._news_may_come = False
        self.end_if_all_ended()

    def end_if_all_ended(self) -> None:
        """Decide, once no rank runs any more."""
        if self._state != "running" or any(rank.alive for rank in self.ranks):
            return
        outcomes = [rank.outcome for rank in self.ranks if rank.outcome is not None]
        decided = pod_outcome(outcomes, len(self.ranks), self._order, self._stopping)
        if decided.provisional and self._news_may_come:
            return
        if decided.code is ExitCode.DONE:
            self._state = "done"
            self._send_up(Bye(code=0))
            if self._order is None or (self._recovers and not self._node_0_is_lost):
                self._watch_marker(MARKER_SECONDS, None)  # what follows, node 0 says
            else:
                self._watch_marker(0, replace(self._order, again=self._recovers))
        else:
            self._say_bye(decided)

    def _watch_marker(self, wait_seconds: float, order: PodOutcome | None) -> None:
        """This pod is done. The run is too, if its marker says so; else it ends by ``order``, or waits on if there is none."""

        async def watch() -> None:
            await asyncio.sleep(wait_seconds)
            while not await self._marked_complete():
                if order is not None:
                    return self._end(order)
                await asyncio.sleep(MARKER_SECONDS)
            self._end(PodOutcome(ExitCode.DONE))

        if self._marker_watch is not None:
            self._marker_watch.cancel()
        self._marker_watch = in_background(watch())

    async def _marked_complete(self) -> bool:
        try:
            return await self._is_complete()
        except PodError as error:
            get_log().warning("marker_not_readable", reason=str(error))
            return False

    @property
    def _recovers(self) -> bool:
        """Whether another attempt may follow in this pod, unless it was told to end."""
        return self._spec.lifecycle.recovery is not None and self._told is None

    def _follow(self, verdict: Verdict) -> None:
        """What node 0 says once all pods have ended their ranks."""
        code, cause = ExitCode.PREEMPTED_NOT_SAVED if verdict.code is None else ExitCode(verdict.code), verdict.cause
        ordered = None if verdict.code is None else PodOutcome(code, cause)
        if self._state == "ended" and self._decided is not None:
            self._end(replace(ordered or self._decided, again=verdict.again))
        elif self._state == "done":
            ordered = ordered or self._order or PodOutcome(ExitCode.PEER_LOST, cause)
            self._watch_marker(0, replace(ordered, again=verdict.again and self._recovers))

    def _say_bye(self, decided: PodOutcome) -> None:
        if self._state == "over":
            return
        self._send_up(Bye(code=int(decided.code), cause=decided.cause))
        if self._state == "waiting" or decided.code in ENDS_POD or not self._recovers:
            self._end(decided)
        elif self._node_0_is_lost:
            self._end(replace(decided, again=True))
        else:
            self._state, self._decided = "ended", decided
            self._timers.cancel()

    def _end(self, decided: PodOutcome) -> None:
        self._state = "over"
        self._timers.cancel()
        if not self.ended.done():
            self.ended.set_result(decided)

    def _count_alive(self) -> None:
        self._measurements.update({"trainwright_ranks_alive": sum(rank.alive for rank in self.ranks)})

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
