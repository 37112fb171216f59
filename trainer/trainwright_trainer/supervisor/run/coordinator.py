"""Coordinator: node 0's view of the whole run. Decides when it starts, stops, saves, and why it ends.

It knows pods only by what they say, its own like the others, and never waits. Its life: *gathering* the pods, *opening* the
attempt in the ledger, *running*, *ending* while the pods of a run that recovers in place end their ranks, *over*. Until
``start`` nobody has anything to lose, so a pod that goes away merely leaves its place empty.
"""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass
from typing import Literal

from trainwright_trainer.checkpoint.ledger import RETRIED
from trainwright_trainer.contract.exit_codes import Cause, Disposition, ExitCode, codes_with
from trainwright_trainer.contract.failures import PodError
from trainwright_trainer.contract.spec import RunSpec, Script
from trainwright_trainer.observe.hang import DUMP_SECONDS, Dumped, Hang, Stuck
from trainwright_trainer.observe.log import get_log
from trainwright_trainer.observe.metrics import Measurements, RunPace
from trainwright_trainer.rank.messages import Act, Action, Carry, Given, Pause, Wanted
from trainwright_trainer.supervisor.event_loop import Timers, in_background
from trainwright_trainer.supervisor.run.agreement import Agreement, AtTick, Impossible, TooLate
from trainwright_trainer.supervisor.run.history import History, keep_times, wait_for_volume
from trainwright_trainer.supervisor.wire.control import Peer, difference_from_node_0
from trainwright_trainer.supervisor.wire.messages import (
    Bye,
    Downward,
    Dump,
    EndRequested,
    Finished,
    Join,
    Leave,
    Paces,
    Position,
    Saved,
    Start,
    Terminate,
    Times,
    Upward,
    Verdict,
    leave_without_peer,
)

PERMANENT = codes_with(Disposition.PERMANENT)
BY_WEIGHT = (
    PERMANENT, RETRIED, (ExitCode.NODE_UNHEALTHY,), (ExitCode.PREEMPTED_NOT_SAVED,), (ExitCode.PEER_LOST,),
    (ExitCode.PREEMPTED_SAVED,),
)
"""Which of the codes of its pods says how an attempt ended: the first."""
ANSWER_SECONDS = 5.0
"""For every pod to say where its ranks are; their listener threads answer at once, whatever the ranks compute."""
RETRY_SAVE_SECONDS = 10.0
"""After a periodic save could not be agreed on, because ranks were still restoring."""


@dataclass(frozen=True, slots=True)
class Before:
    """The attempts before in the same pods, as this one remembers them."""

    wait_seconds: float
    """For pods to come back."""
    retries: int = 0
    cause: Cause | None = None
    """Why the last one ended."""


class Coordinator:
    """One per attempt, in node 0's supervisor. ``pods`` are those that join, its own included."""

    def __init__(
        self, spec: RunSpec, sha256: str, pods: int, history: History, measurements: Measurements, before: Before | None = None
    ) -> None:
        self.state: Literal["gathering", "opening", "running", "ending", "over"] = "gathering"
        self.attempt: str | None = None
        """Noted in the ledger; None until everybody has come."""
        self.ended_with: Bye | None = None
        """What all pods together came to, in a run that recovers in place."""
        self.retries = 0 if before is None else before.retries
        """Attempts that failed by themselves, as far as ledger and memory know."""
        self._before, self._recovery = before, spec.lifecycle.recovery
        self._spec, self._sha256, self._history, self._measurements = spec, sha256, history, measurements
        self._pods, self.nonce = pods, uuid.uuid4().hex[:12]
        self._peers: dict[int, Peer] = {}
        self._stop: Literal["no", "wanted", "agreed"] = "no"
        self._stop_cause = Cause(kind="ToldToEnd", message="the run was told to end")
        self._agreement: Agreement | None = None
        self._saving = False
        self._wishes: dict[int, Wanted] = {}
        """What the ranks of each pod wait for, by node."""
        self._hang: Hang | None = None
        self._pace = RunPace(spec.world.size, measurements)
        self._bookkeeping: asyncio.Task[None] | None = None
        self._requests = 0
        self._committed_step: int | None = None
        self._timers = Timers()
        self._patience = 0.0
        self._deadlines: dict[int, float] = {}
        """On the loop's clock, until when each missing pod may come."""
        self._latest = 0.0
        """And until when any of them may, however often one is lost."""

    @property
    def is_over(self) -> bool:
        return self.state in ("ending", "over")

    # --- what pods do ---------------------------------------------------------------------------------------------------------

    def wait(self, seconds: float) -> None:
        """For pods that are missing, and as long for each that is lost meanwhile; for all together at most twice as long."""
        self._patience = seconds
        self._latest = asyncio.get_running_loop().time() + 2 * seconds
        self._wait_for(self._missing())

    def add_own_pod(self, peer: Peer) -> None:
        """Node 0's own pod joins without a connection."""
        self._peers[0] = peer
        self._count()
        if missing := self._missing():
            get_log().info("waiting_for_peers", missing=missing, seconds=self._patience)
        else:
            self.state = "opening"
            in_background(self._open())

    def join(self, join: Join, peer: Peer) -> Leave | None:
        """Take a pod in; gives the refusal if it cannot take part. Not for a run that is over."""
        if different := difference_from_node_0(join, self._sha256, self._pods):
            cause = Cause(kind="TopologyMismatch", message=f"{peer} and node 0 differ: {different}")
            if join.attempt == self.nonce and self.state in ("gathering", "opening"):  # else anybody's: a run that works goes on
                self._everyone_leaves(ExitCode.TOPOLOGY_MISMATCH, cause)
            get_log().error("join_refused", peer=peer.node, reason=cause.message)
            return Leave(code=ExitCode.TOPOLOGY_MISMATCH, cause=cause, patience_seconds=0)
        if join.node in self._peers:
            cause = Cause(kind="PeerLost", message=f"{peer} joined again while the pod before it still counted as connected")
            get_log().error("peer_lost", peer=peer.node, reason=cause.message)
            self._everyone_obeys(leave_without_peer(cause))
            return leave_without_peer(cause, silent=True)
        self._peers[join.node] = peer
        self._count()
        get_log().info("peer_joined", peer=peer.node, host=peer.host, missing=self._missing())
        if join.again and self._before is None and self._recovery is not None:  # node 0 was replaced, and others wait already
            self._before = Before(self._recovery.wait_seconds)
            self.wait(self._recovery.wait_seconds)
            get_log().info("waiting_for_peers", missing=self._missing(), seconds=self._patience)
        if not self._missing():
            self.state = "opening"
            in_background(self._open())
        return None

    def heard(self, peer: Peer, message: Upward) -> None:
        """What a pod says."""
        match message:
            case EndRequested(why=why):
                self.stop(Cause(kind="ToldToEnd", message=why))
            case Position():
                if self._agreement is not None:
                    self._agreement.answer(peer.node, message)
                    self._follow_agreement()
            case Saved(step=step):
                self._saving = False
                self._committed_step = step
            case Wanted():
                self._wishes[peer.node] = message
                self._grant(message.request)
            case Stuck():
                self._inspect(message)
            case Dumped() if self._hang is not None:
                self._hang.answer(peer.node, message)
                self._follow_hang()
            case Paces(step=step, times=times):
                self._pace.heard(step, times)
            case Times(seconds=seconds, step=step) if self.attempt is not None:
                self._history.spent(self.attempt, seconds, step)
            case Bye():
                peer.bye = message
                if message.code == ExitCode.NODE_UNHEALTHY:
                    self._measurements.update({"trainwright_unhealthy_node": peer.node})
                    reason = message.cause.message if message.cause else None
                    get_log().error("node_unhealthy", peer=peer.node, host=peer.host, reason=reason)
                self._after_bye(peer, message)

    def lost(self, peer: Peer, why: str, silent: bool) -> None:
        """The connection to a pod ended."""
        if self._peers.get(peer.node) is not peer or peer.bye is not None:
            return
        if self.state == "gathering":
            self._left_before_start(peer, why)
            return
        if self.state == "over":
            return
        get_log().error("peer_lost", peer=peer.node, reason=why)
        peer.bye = Bye(code=ExitCode.PEER_LOST)
        self._count()
        if self.state == "ending":
            self._judge()
            return
        self._leave_without(peer, Cause(kind="PeerLost", message=f"{peer} is lost: {why}"), silent)

    # --- gathering ------------------------------------------------------------------------------------------------------------

    def _missing(self) -> list[int]:
        return [node for node in range(self._pods) if node not in self._peers]

    def _wait_for(self, nodes: list[int]) -> None:
        now = asyncio.get_running_loop().time()
        deadline = min(now + self._patience, self._latest)
        self._deadlines |= dict.fromkeys(nodes, deadline)
        self._timers.after(deadline - now, lambda: self._stop_waiting(deadline))

    def _stop_waiting(self, deadline: float) -> None:
        missing = [node for node in self._missing() if self._deadlines[node] <= deadline]
        if self.state != "gathering" or not missing:
            return
        seconds = self._patience
        names = ", ".join(map(str, missing[:20])) + (" and others" if len(missing) > 20 else "")
        of = f"{len(missing)} of {self._pods} nodes"
        get_log().error("peers_never_came", missing=missing, seconds=seconds)
        if self._before is None:
            message = f"{of} did not join within {seconds:g} s: {names}; check that their pods are scheduled"
            self._everyone_leaves(ExitCode.PEERS_NEVER_CAME, Cause(kind="PeersNeverCame", message=message))
        else:
            why = f"; the attempt before ended because {self._before.cause.message}" if self._before.cause else ""
            message = f"{of} did not come back within {seconds:g} s: {names}{why}"
            self._everyone_leaves(ExitCode.PEER_LOST, Cause(kind="PeerLost", message=message))

    async def _open(self) -> None:
        attempt, limit = self.nonce, self._spec.lifecycle.attempts_without_progress
        try:
            beginning = await wait_for_volume(
                lambda: self._history.begin(attempt), 0 if self._before is None else self._before.wait_seconds,
                lambda: self.state == "opening",
            )
        except PodError as error:
            self._own_pod_fails(error)
            return
        self.attempt = attempt
        self.retries = max(self.retries, beginning.past.retries)
        if self.state != "opening":
            return
        if beginning.past.attempts_without_progress > limit:
            newer = "a checkpoint" if beginning.committed_step is None else f"one newer than step {beginning.committed_step}"
            message = f"{limit} attempts in a row ended without {newer}; see the attempt ledger beside the checkpoints"
            self._everyone_leaves(ExitCode.NO_PROGRESS, Cause(kind="NoProgress", message=message))
            return
        self.state = "running"
        committed, before = beginning.committed_step, beginning.resume_before
        get_log().info("started", attempt=attempt, nodes=self._pods, committed_step=committed, resume_before=before)
        self._committed_step = committed
        self._tell_everyone(Start(attempt=attempt, committed_step=committed, past=beginning.past, resume_before=before))
        self._save_after(self._save_every)
        self._bookkeeping = in_background(keep_times(self._history))

    # --- watching -------------------------------------------------------------------------------------------------------------

    def _inspect(self, stuck: Stuck) -> None:
        """A rank hangs, and so does everybody who waits for it: ask all pods, and find out who that is."""
        if self.state != "running" or self._stop != "no" or self._hang is not None:
            return
        self._hang = Hang(stuck, {peer.node: str(peer) for peer in self._peers.values() if peer.bye is None})
        self._timers.after(DUMP_SECONDS, self._conclude_hang)
        self._tell_everyone(Dump())

    def _follow_hang(self) -> None:
        if self._hang is not None and self._hang.complete:
            self._conclude_hang()

    def _conclude_hang(self) -> None:
        if self._hang is not None and self.state == "running":
            cause = self._hang.cause()
            get_log().error("hang", reason=cause.message)
            self._everyone_leaves(ExitCode.HANG, cause)

    # --- stopping and saving --------------------------------------------------------------------------------------------------

    @property
    def _save_every(self) -> float | None:
        return None if isinstance(self._spec.work, Script) else self._spec.work.checkpoints.every_seconds

    def stop(self, cause: Cause) -> None:
        """End the run in an orderly way: everybody saves, if that can be agreed on. Later causes change nothing."""
        if self.state != "running" or self._stop != "no":
            return
        get_log().warning("stopping", reason=cause.message)
        self._stop, self._stop_cause = "wanted", cause
        self._tell_everyone(Terminate(cause=cause))
        if isinstance(self._spec.work, Script):
            self._stop = "agreed"  # those that do not ask when to stop have had their signal
        if self._agreement is None:
            self._ask("stop")
        else:
            self._agreement.action = "stop"  # the question was the same

    def _save_after(self, seconds: float | None) -> None:
        if seconds is not None:
            self._timers.after(seconds, self._save_now)

    def _save_now(self) -> None:
        if self.state != "running" or self._stop != "no":
            return
        if self._agreement is None and not self._saving:
            self._ask("save")
        else:
            self._saving = False  # asked for once more if it is still not there by then: it may have failed
            self._save_after(self._save_every)

    def _grant(self, request: int) -> None:
        """Act once all pods wait for the same. Those that wait while another one is done would wait for ever."""
        wishes = [wish for _, wish in sorted(self._wishes.items()) if wish.request == request]
        done = [peer for _, peer in sorted(self._peers.items()) if peer.bye is not None]
        if wishes and len(wishes) + len(done) >= self._pods and self.state == "running":
            self._wishes.clear()
            if done:
                differs = f"{done[0]} has ended, and others want {wishes[0].what} of step {wishes[0].step}"
                wishes = [wishes[0].model_copy(update={"differs": differs})]
            in_background(self._give(wishes))

    async def _give(self, wishes: list[Wanted]) -> None:
        wanted = wishes[0]
        differ = next((wish.differs for wish in wishes if wish.differs), None)
        if differ is None and len({(wish.what, wish.step) for wish in wishes}) > 1:
            differ = "; ".join(f"{wish.what} of step {wish.step}" for wish in wishes[:4])
        if differ is not None:
            given = Given(request=wanted.request, error=f"all ranks must want the same checkpoint, and they differ: {differ}")
        else:
            try:
                given = await self._history.give(wanted)
            except PodError as error:
                if self.state == "running":
                    self._everyone_leaves(error.exit_code, error.cause)
                return
        if self.state == "running":
            self._tell_everyone(given)

    def _ask(self, action: Action) -> None:
        nodes = [peer.node for peer in self._peers.values() if peer.bye is None]  # the others are done
        self._requests += 1
        self._agreement = Agreement(self._requests, action, nodes)
        self._timers.after(ANSWER_SECONDS, lambda request=self._requests: self._no_answer(request))  # type: ignore[misc]
        self._tell_everyone(Pause(request=self._requests))

    def _no_answer(self, request: int) -> None:
        if self._agreement is not None and self._agreement.request == request:
            nodes = ", ".join(map(str, self._agreement.silent_nodes))
            self._conclude(self._agreement, Impossible(f"the ranks of node {nodes} did not answer within {ANSWER_SECONDS:g} s"))

    def _follow_agreement(self) -> None:
        if self._agreement is not None and (decision := self._agreement.decision()) is not None:
            self._conclude(self._agreement, decision)

    def _conclude(self, agreement: Agreement, decision: AtTick | TooLate | Impossible) -> None:
        self._agreement = None
        request, action = agreement.request, agreement.action
        if action == "save":
            self._save_after(self._save_every if isinstance(decision, AtTick) else min(self._save_every or 0, RETRY_SAVE_SECONDS))
        match decision:
            case AtTick(tick=tick):
                get_log().info("agreed", action=action, tick=tick)
                self._saving = action == "save"
                self._stop = "agreed" if action == "stop" else self._stop
                self._tell_everyone(Act(request=request, action=action, tick=tick))
            case TooLate():
                self._stop = "agreed" if action == "stop" else self._stop
                self._tell_everyone(Carry(request=request))
            case Impossible(why=why) if action == "stop" and not isinstance(self._spec.work, Script):
                message = f"{self._stop_cause.message}, and nothing could be saved: {why}"
                self._everyone_leaves(ExitCode.PREEMPTED_NOT_SAVED, Cause(kind="NotSaved", message=message))
            case Impossible(why=why):
                get_log().info("not_agreed", action=action, reason=why)
                self._tell_everyone(Carry(request=request))

    # --- ending ---------------------------------------------------------------------------------------------------------------

    def _after_bye(self, peer: Peer, bye: Bye) -> None:
        self._count()
        if self.state == "gathering":
            self._left_before_start(peer, "it ended")
            return
        if self.state == "ending":
            self._judge()
        if self.is_over:
            return
        expected: tuple[int, ...] = (ExitCode.DONE,)
        if self._stop == "agreed":
            expected = (ExitCode.DONE, ExitCode.PREEMPTED_SAVED)
        if bye.code not in expected and not self._each_ends_by_itself:
            reason = bye.cause.message if bye.cause else f"code {bye.code}"
            get_log().error("peer_failed", peer=peer.node, code=bye.code, reason=reason)
            kind = bye.cause.kind if bye.cause else "PeerFailed"
            rank = bye.cause.rank if bye.cause else None
            self._leave_without(peer, Cause(rank=rank, kind=kind, message=f"{peer} ended with {bye.code}: {reason}"))
        elif all(other.bye is not None for other in self._peers.values()):
            self._everyone_said_bye()
        elif waits := next(iter(self._wishes.values()), None):
            self._grant(waits.request)

    def _left_before_start(self, peer: Peer, why: str) -> None:
        if peer.node == 0:
            self._over()
        else:
            del self._peers[peer.node]
            self._count()
            get_log().warning("peer_left", peer=peer.node, reason=why, missing=self._missing())
            self._wait_for([peer.node])

    @property
    def _each_ends_by_itself(self) -> bool:
        """Scripts that were told to end take their own time to save, whatever happens to the others."""
        return self._stop == "agreed" and isinstance(self._spec.work, Script)

    def _leave_without(self, lost: Peer, cause: Cause, silent: bool = False) -> None:
        if not self._each_ends_by_itself:
            self._everyone_obeys(leave_without_peer(cause, silent=silent, stopping=self._stop != "no"), but=lost)
        elif all(peer.bye is not None for peer in self._peers.values()):
            self._everyone_said_bye()

    def _judge(self) -> None:
        """Whether another attempt follows, once no rank of this one runs anywhere."""
        byes = [peer.bye for peer in self._peers.values() if peer.bye is not None]
        if self.ended_with is None:
            return
        self.ended_with = ended = next((bye for codes in BY_WEIGHT for bye in byes if bye.code in codes), self.ended_with)
        if len(byes) < len(self._peers):
            return  # but node 0's own pod may end first, and notes what is known
        verdict = Verdict(again=ended.code not in PERMANENT)
        self.retries += ended.code in RETRIED
        if self._recovery is not None and self.retries > self._recovery.restarts and ended.code in RETRIED:
            ended = Bye(code=ExitCode.RETRIES_SPENT, cause=_spent(self.retries, self._recovery.restarts, ended))
            verdict = Verdict(again=False, code=ExitCode.RETRIES_SPENT, cause=ended.cause)
        self.ended_with = ended
        reason = ended.cause.message if ended.cause else None
        get_log().warning("attempt_ended", code=ended.code, again=verdict.again, retries=self.retries, reason=reason)
        self._tell_everyone(verdict)
        self._over()

    def _everyone_said_bye(self) -> None:
        if all(peer.bye is not None and peer.bye.code == ExitCode.DONE for peer in self._peers.values()):
            in_background(self._finish())
        else:  # some were done before the run was told to end, and the others never will be
            self._everyone_leaves(ExitCode.PREEMPTED_NOT_SAVED, self._stop_cause)

    async def _finish(self) -> None:
        try:
            await self._history.complete(self.attempt or "", self._committed_step or 0)
        except PodError as error:
            self._own_pod_fails(error)
            return
        self._tell_everyone(Finished())
        self._over()

    def _own_pod_fails(self, error: PodError) -> None:
        own = self._peers[0]
        own.send(Leave(code=error.exit_code, cause=error.cause, patience_seconds=0))
        cause = Cause(kind=error.cause.kind, message=f"{own} ended with {int(error.exit_code)}: {error.cause.message}")
        self._everyone_obeys(leave_without_peer(cause, silent=True), but=own)

    def _everyone_leaves(self, code: ExitCode, cause: Cause) -> None:
        self._everyone_obeys(Leave(code=code, cause=cause, patience_seconds=0))

    def _everyone_obeys(self, order: Leave, but: Peer | None = None) -> None:
        for peer in self._peers.values():
            if peer is not but:
                peer.send(order)
        outlived = self.state == "running" and self._recovery is not None
        self._over()
        if outlived:
            self.state, self.ended_with = "ending", Bye(code=order.code, cause=order.cause)
            self._judge()

    def _tell_everyone(self, message: Downward) -> None:
        for peer in self._peers.values():
            peer.send(message)

    def _over(self) -> None:
        self.state = "over"
        self._agreement = None  # an answer that is still on its way must not let ranks go on
        self._timers.cancel()
        if self._bookkeeping is not None:
            self._bookkeeping.cancel()

    def _count(self) -> None:
        self._measurements.update({"trainwright_peers_connected": sum(peer.bye is None for peer in self._peers.values())})


def _spent(retries: int, restarts: int, last: Bye) -> Cause:
    how = last.cause.message if last.cause else f"code {last.code}"
    message = f"{retries} attempts failed, and the run may restart {restarts} times; the last one: {how}"
    return Cause(rank=last.cause.rank if last.cause else None, kind="RetriesSpent", message=message)
