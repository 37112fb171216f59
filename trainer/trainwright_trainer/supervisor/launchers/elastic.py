"""Elastic run: the role of a pod whose run goes on when other pods come and go. It runs one attempt after the other."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, TypeAdapter

from trainwright_trainer.contract.base import Contract, Count, Index, Port
from trainwright_trainer.contract.exit_codes import EXIT_CODES, Cause, Disposition, ExitCode
from trainwright_trainer.contract.failures import PodError
from trainwright_trainer.contract.spec import ElasticRendezvous, RunSpec, Script
from trainwright_trainer.observe.log import get_log
from trainwright_trainer.run.link import LINK_FD_ENV, MEETING_ENV
from trainwright_trainer.supervisor import shim
from trainwright_trainer.supervisor.interpreter import hand_path, python_of_image
from trainwright_trainer.supervisor.place import EVERYWHERE, PodPlace, bind_address, host_name
from trainwright_trainer.supervisor.pod.launcher import AGREE_BY_COLLECTIVE, Setting, local_launcher
from trainwright_trainer.supervisor.pod.outcome import PodOutcome
from trainwright_trainer.supervisor.pod.pod import MARGIN_SECONDS
from trainwright_trainer.supervisor.pod.rank import RankLink
from trainwright_trainer.supervisor.run.attempt import Attempt, lone_attempt
from trainwright_trainer.supervisor.run.history import History, ReadOnlyHistory
from trainwright_trainer.supervisor.wire.proof import Proof, read_secret

PROGRAM = "trainwright_trainer.run.torch_rendezvous"
_STOPPED = (ExitCode.PREEMPTED_SAVED, ExitCode.PREEMPTED_NOT_SAVED)


class Meet(Contract):
    """Leave the round that this node is in, if any, and join the next one."""

    type: Literal["meet"] = "meet"


class Done(Contract):
    """All ranks of this node have ended with 0."""

    type: Literal["done"] = "done"


class AllDone(Contract):
    """Every node of the round has said so."""

    type: Literal["all_done"] = "all_done"


class Met(Contract):
    """A round is complete."""

    type: Literal["met"] = "met"
    node: Index
    nodes: Count
    host: str
    """Where rank 0 listens."""
    port: Port
    attempt: str
    """The round's nonce, the same on every node."""


class Waiting(Contract):
    """More nodes wait to be let in. Sent once a round."""

    type: Literal["waiting"] = "waiting"
    nodes: Count


class Gone(Contract):
    """Nodes of this round give no sign of life any more, or have left it."""

    type: Literal["gone"] = "gone"
    nodes: int


class NotMet(Contract):
    """No round came about in time."""

    type: Literal["not_met"] = "not_met"
    why: str


class StoreLost(Contract):
    """The store at which nodes meet does not answer any more."""

    type: Literal["store_lost"] = "store_lost"
    why: str


FromRendezvousMessage = Met | AllDone | Waiting | Gone | NotMet | StoreLost
FROM_RENDEZVOUS: TypeAdapter[FromRendezvousMessage] = TypeAdapter(Annotated[FromRendezvousMessage, Field(discriminator="type")])


class RendezvousLink(RankLink):
    """The line to the rendezvous program."""

    messages: ClassVar[TypeAdapter[Any]] = FROM_RENDEZVOUS


class ElasticRole:
    """A :class:`Role` of several attempts, one for each round of the rendezvous that this pod takes part in.

    A round ends for all pods when one of them is lost, is told to end, or waits to be let in. In the last two cases all ranks
    save first, in agreement; then the pods that stay meet again and go on from the newest commit.

    No pod ends with 0 before all ranks of the round have: an operator may take the first for the end of the run, and delete
    the others (training-operator 1.9, pkg/controller.v1/pytorch/pytorchjob_controller.go). Our trainer's ranks agree on that
    after the last commit; of a script the pods tell each other.
    """

    def __init__(self, setting: Setting) -> None:
        rendezvous, environ = setting.spec.world.rendezvous, setting.environ
        assert isinstance(rendezvous, ElasticRendezvous)  # noqa: S101 - nothing else leads here
        self._setting, self._rendezvous = setting, rendezvous
        self.place = PodPlace(None, bind_address(environ), host_name(environ))
        self._hosts_store = _hosts_store(setting, rendezvous, self.place)
        self._history = ReadOnlyHistory(setting.spec)
        self._round: Attempt | None = None
        self._link: RendezvousLink | None = None
        self._program: subprocess.Popen[bytes] | None = None
        self._met: asyncio.Future[Met | PodOutcome] | None = None
        self._finishing = False
        self._over: PodOutcome | None = None
        self._store_lost: PodOutcome | None = None
        self._restarts = 0

    @property
    def attempt(self) -> str | None:
        return None if self._round is None else self._round.attempt

    @property
    def step(self) -> int | None:
        return None if self._round is None else self._round.step

    @property
    def committed_step(self) -> int | None:
        return None if self._round is None else self._round.committed_step

    async def run_to_end(self) -> PodOutcome:
        try:
            while self._over is None:
                if await self._history.is_complete():
                    get_log().info("already_complete")
                    return PodOutcome(ExitCode.DONE)
                met = await self._meet()
                if isinstance(met, PodOutcome) or self._over is not None:
                    return met if isinstance(met, PodOutcome) else self._over
                self._round = current = self._new_round(met)
                decided = await current.run_to_end()
                if decided.code is ExitCode.DONE and isinstance(self._setting.spec.work, Script):
                    decided = await self._finish_together(current)
                if self._over is not None or not self._goes_on(decided):
                    return decided
                get_log().warning("round_ended", code=int(decided.code), reason=decided.cause.message if decided.cause else "")
                await current.leave(decided)
        except PodError as error:
            return PodOutcome(error.exit_code, error.cause)
        return self._over

    async def leave(self, decided: PodOutcome) -> None:
        if self._round is not None:
            await self._round.leave(decided)

    def told_to_end(self, signal_name: str) -> None:
        if self._over is not None:
            return
        cause = Cause(kind="ToldToEnd", message=f"{self.place} was told to end by {signal_name}")
        self._over = PodOutcome(ExitCode.PREEMPTED_NOT_SAVED, cause)
        if self._met is not None and not self._met.done():
            get_log().warning("told_to_end", signal=signal_name)
            grace = self._setting.spec.lifecycle.grace_seconds
            seconds = max(grace - MARGIN_SECONDS, grace / 2) if self._finishing else 0  # the others may still be done in time
            asyncio.get_running_loop().call_later(seconds, self._give_up, self._over)
        elif self._round is not None:
            self._round.told_to_end(signal_name)

    def child_ended(self, pid: int, status: int) -> None:
        if self._program is not None and pid == self._program.pid:
            self._program.returncode = status
            self._lose_store(f"the rendezvous program exited with {status}; its output above says why", ExitCode.INTERNAL)
        elif self._round is not None:
            self._round.child_ended(pid, status)

    def fail(self, cause: Cause) -> None:
        self._over = PodOutcome(ExitCode.INTERNAL, cause)
        if self._met is not None and not self._met.done():
            self._met.set_result(self._over)
        elif self._round is not None:
            self._round.fail(cause)

    # --- the rendezvous ---------------------------------------------------------------------------------------------------------

    async def _meet(self) -> Met | PodOutcome:
        if (ends := self._over or self._store_lost) is not None:  # told to end while it looked for the marker
            return ends
        get_log().info("waiting_for_peers", seconds=self._setting.spec.lifecycle.peer_wait_seconds)
        return await self._ask(Meet())

    async def _finish_together(self, done: Attempt) -> PodOutcome:
        """Wait for the other pods of the round, whose ranks may still save; the pod of node 0 then marks the run as complete."""
        get_log().info("waiting_for_others", reason="their ranks have not all ended")
        self._finishing = True
        finished = await self._ask(Done())
        self._finishing = False
        assert isinstance(finished, PodOutcome)  # noqa: S101 - no other round begins meanwhile
        if finished.code is ExitCode.DONE and self.place.node == 0:
            await History(self._setting.spec).complete(done.attempt or "", done.committed_step or 0)
        return finished

    async def _ask(self, message: Meet | Done) -> Met | PodOutcome:
        if self._link is None:
            self._link = self._start_program()
        self._met = asyncio.get_running_loop().create_future()
        self._link.say(message)
        answer = await self._met
        self._met = None
        return answer

    def _start_program(self) -> RendezvousLink:
        ours, theirs = socket.socketpair()
        address = self.place.host if self.place.bind == EVERYWHERE else self.place.bind
        environment = {
            **self._setting.environ, **hand_path(self._setting.environ), LINK_FD_ENV: str(theirs.fileno()),
            MEETING_ENV: json.dumps(_parameters(self._setting.spec, self._rendezvous, address, hosts_store=self._hosts_store)),
        }
        self._program = subprocess.Popen(
            shim.tied((python_of_image(self._setting.rank_command, self._setting.environ), "-m", PROGRAM)),
            env=environment, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()], start_new_session=True,
        )
        theirs.close()
        return RendezvousLink(ours, self._hear)

    def _hear(self, message: FromRendezvousMessage) -> None:
        match message:
            case Met() if self._met is not None and not self._met.done():
                self._met.set_result(message)
            case AllDone() if self._finishing:
                self._give_up(PodOutcome(ExitCode.DONE))
            case Waiting(nodes=nodes) if self._round is not None and not self._finishing:
                why = f"{nodes} more node{'s' if nodes > 1 else ''} can take part: this round ends and the next one includes them"
                self._round.stop(Cause(kind="NodesWait", message=why))
            case Gone(nodes=nodes) if self._round is not None:
                why = f"{nodes} node{'s' if nodes > 1 else ''} of this round fell silent: the others go on without them"
                cause = Cause(kind="PeerLost", message=why)
                if self._finishing:
                    self._give_up(PodOutcome(ExitCode.PEER_LOST, cause))
                else:
                    self._round.lose(cause)
            case NotMet(why=why):
                where, seconds = self._rendezvous, self._setting.spec.lifecycle.peer_wait_seconds
                text = (
                    f"fewer than {where.min_nodes} nodes met at {where.host}:{where.port} within {seconds:g} s: {why}; "
                    "check that their pods are scheduled"
                )
                get_log().error("peers_never_came", reason=why, seconds=seconds)
                self._give_up(PodOutcome(ExitCode.PEERS_NEVER_CAME, Cause(kind="PeersNeverCame", message=text)))
            case StoreLost(why=why):
                where = self._rendezvous
                self._lose_store(f"the store at {where.host}:{where.port} is lost: {why}", ExitCode.PEER_LOST)

    def _lose_store(self, message: str, code: ExitCode) -> None:
        """The ranks may still finish together, but no new round can begin without the store."""
        get_log().error("store_lost", reason=message)
        kind = "PeerLost" if code is ExitCode.PEER_LOST else "MeetingFailed"
        self._store_lost = PodOutcome(code, Cause(kind=kind, message=message))
        self._give_up(self._store_lost)

    def _give_up(self, outcome: PodOutcome) -> None:
        if self._met is not None and not self._met.done():
            self._met.set_result(outcome)

    # --- a round --------------------------------------------------------------------------------------------------------------

    def _new_round(self, met: Met) -> Attempt:
        setting = self._setting
        get_log().info("met", node=met.node, nodes=met.nodes, attempt=met.attempt)
        self.place = place = replace(self.place, node=met.node)
        rendezvous_env = {"MASTER_ADDR": met.host, "MASTER_PORT": str(met.port), **AGREE_BY_COLLECTIVE}
        return lone_attempt(setting, place, local_launcher(setting, place, rendezvous_env, met.nodes), met.attempt)

    def _goes_on(self, decided: PodOutcome) -> bool:
        """Whether this pod meets the others again. Ranks that ended because others did count as no restart."""
        code = decided.code
        if code in _STOPPED or code is ExitCode.PEER_LOST or decided.provisional:
            return True
        if code is ExitCode.NODE_UNHEALTHY or EXIT_CODES[code].disposition is not Disposition.COUNTED:
            return False
        self._restarts += 1
        return self._restarts <= self._rendezvous.max_restarts


def _parameters(spec: RunSpec, rendezvous: ElasticRendezvous, address: str, *, hosts_store: bool) -> dict[str, str | int]:
    """Of torch's handler, by torch's names."""
    return {
        "run_id": _name_of_meeting(spec), "local_addr": address,
        "endpoint": f"{address if hosts_store else rendezvous.host}:{rendezvous.port}", "is_host": str(hosts_store),
        "min_nodes": rendezvous.min_nodes, "max_nodes": rendezvous.max_nodes,
        "join_timeout": int(spec.lifecycle.peer_wait_seconds), "last_call_timeout": rendezvous.last_call_seconds,
        "keep_alive_interval": rendezvous.keep_alive_seconds, "keep_alive_max_attempt": rendezvous.keep_alive_attempts,
    }


def _name_of_meeting(spec: RunSpec) -> str:
    """Under which the nodes find each other in the store, which asks nobody who they are.

    Pods of another run look for another name. Where the run has a secret, whoever does not know it cannot tell the name either.
    """
    proof = Proof(read_secret(spec.world.control_secret), spec.identity, "")
    return "-".join(filter(None, (spec.identity, proof.of("pod", "meeting"))))


def _hosts_store(setting: Setting, rendezvous: ElasticRendezvous, place: PodPlace) -> bool:
    name = setting.spec.world.node_index_env
    if name is not None:
        return setting.environ.get(name) == "0"
    return place.is_called(rendezvous.host)
