"""Role: what one pod does in a run, from the moment that it knows who it is to its exit code. The usual one is one attempt.

In an attempt ranks are numbered once, at the start, and all end together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from trainwright_trainer.contract.exit_codes import Cause, ExitCode
from trainwright_trainer.contract.failures import PodError
from trainwright_trainer.contract.spec import RunSpec
from trainwright_trainer.observe.log import get_log
from trainwright_trainer.observe.metrics import Measurements
from trainwright_trainer.rank.messages import Action, Ask, Given
from trainwright_trainer.supervisor.event_loop import in_background
from trainwright_trainer.supervisor.place import PodPlace
from trainwright_trainer.supervisor.pod.launcher import Launcher, Setting
from trainwright_trainer.supervisor.pod.outcome import PodOutcome
from trainwright_trainer.supervisor.pod.pod import Pod
from trainwright_trainer.supervisor.run.coordinator import Before, Coordinator
from trainwright_trainer.supervisor.run.history import History, HistoryOfRound, ReadOnlyHistory, wait_for_volume
from trainwright_trainer.supervisor.wire.control import ControlClient, ControlServer, Peer
from trainwright_trainer.supervisor.wire.messages import Downward, Finished, Leave, Upward, leave_without_peer
from trainwright_trainer.supervisor.wire.proof import read_secret

FAREWELL_SECONDS = 6.0
"""For the other pods to leave before node 0 does: their patience with their ranks, and a little more."""
FLUSH_SECONDS = 2.0
LEDGER_SECONDS = 5.0


class Role(Protocol):
    """Made before the pod says that it is ready, and run once. It hears of every signal and of every child that ended."""

    place: PodPlace

    @property
    def attempt(self) -> str | None:
        """Nonce of the attempt, once one has begun."""

    @property
    def step(self) -> int | None:
        """Last step that training reached, as far as this pod knows."""

    @property
    def committed_step(self) -> int | None:
        """Step of the newest commit that this pod knows of."""

    async def run_to_end(self) -> PodOutcome:
        """Run until nothing of it is left. Call once, with the signals let through."""

    async def leave(self, decided: PodOutcome) -> None:
        """After the outcome was reported: note it where it is kept, and leave the other pods in order."""

    def told_to_end(self, signal_name: str) -> None:
        """SIGTERM or SIGINT. Later ones change nothing."""

    def child_ended(self, pid: int, status: int) -> None:
        """A child was reaped; it may be an orphan that nobody here started."""

    def fail(self, cause: Cause) -> None:
        """Something unexpected in the supervisor itself: end whatever runs, and end."""


def connected_attempt(setting: Setting, place: PodPlace, launcher: Launcher, before: Before | None = None) -> Attempt:
    """An attempt in which node 0 decides for all pods that it is connected to. ``before`` it were others in the same pod."""
    history = History(setting.spec)
    return Attempt(
        setting, place, launcher, history,
        lambda: Coordinator(setting.spec, setting.specification.sha256, place.pods, history, setting.measurements, before),
        before,
    )


def lone_attempt(setting: Setting, place: PodPlace, launcher: Launcher, nonce: str | None = None) -> Attempt:
    """An attempt in which nothing connects the supervisors, so that each decides for its own pod. Node 0 keeps the history.

    Args:
        nonce: Of the attempt, where the pods have agreed on one; they agree on when all are done, too. Default: this pod's own.
    """
    kept = History if nonce is None else HistoryOfRound
    history = kept(setting.spec) if place.node == 0 else ReadOnlyHistory(setting.spec)
    return Attempt(
        setting, place, launcher, history,
        lambda: LoneCoordinator(setting.spec, setting.specification.sha256, history, setting.measurements, nonce),
    )


class Attempt:
    """A :class:`Role`.

    Args:
        place: With ``control`` where this pod's supervisor is connected to those of the other pods.
        launcher: Starts the ranks.
        history: As this pod sees it.
        coordinator: Makes the one that decides, if this pod leads.
        before: The attempts before in the same pod, if there were any.
    """

    def __init__(
        self, setting: Setting, place: PodPlace, launcher: Launcher, history: History, coordinator: Callable[[], Coordinator],
        before: Before | None = None,
    ) -> None:
        self._before = before
        self.place = place
        self._setting, self._history, self._new_coordinator = setting, history, coordinator
        self.pod = Pod(setting.spec, place, launcher, setting.measurements, history.is_complete)
        self._coordinator: Coordinator | None = None
        self._server: ControlServer | None = None
        self._client: ControlClient | None = None
        self._taking_part: asyncio.Task[None] | None = None
        self.prepare: Callable[[], Awaitable[None]] = _nothing
        """Waits for what must be there before this pod takes part."""

    @property
    def attempt(self) -> str | None:
        return self.pod.attempt

    @property
    def step(self) -> int | None:
        return self.pod.step

    @property
    def committed_step(self) -> int | None:
        return self.pod.committed_step

    def told_to_end(self, signal_name: str) -> None:
        self.pod.told_to_end(signal_name)

    def child_ended(self, pid: int, status: int) -> None:
        self.pod.child_ended(pid, status)

    def fail(self, cause: Cause) -> None:
        self.pod.fail(cause)

    def stop(self, cause: Cause) -> None:
        """End in an orderly way for a reason that this pod found itself. Does nothing in a pod that does not lead."""
        if self._coordinator is not None:
            self._coordinator.stop(cause)

    def lose(self, cause: Cause) -> None:
        """End because another pod fell silent, as the rendezvous says where nothing connects the supervisors."""
        if isinstance(self._coordinator, LoneCoordinator):
            self._coordinator.lose(cause)

    async def run_to_end(self) -> PodOutcome:
        self._taking_part = in_background(self._take_part())
        return await self.pod.ended

    async def leave(self, decided: PodOutcome) -> None:
        ends = await asyncio.gather(self._note_end(decided.code), self._say_farewell(), return_exceptions=True)
        for error in ends:  # the code is said, and what goes wrong now does not change it
            if error is not None:
                get_log().warning("farewell_failed", exc_info=error)

    async def _take_part(self) -> None:
        """Everything between a valid specification and the first word of node 0."""
        try:
            if await self._is_complete():
                get_log().info("already_complete")
                self.pod.heard(Finished())
                return
            await self.prepare()
            if self.place.leads:
                await self._lead()
            else:
                await self._follow()
        except PodError as error:
            self.pod.heard(Leave(code=error.exit_code, cause=error.cause, patience_seconds=0))

    async def _is_complete(self) -> bool:
        """The volume may be why the attempt before ended. Then it is waited for, as a lost pod is."""
        return await wait_for_volume(self._history.is_complete, 0 if self._before is None else self._before.wait_seconds)

    async def _lead(self) -> None:
        loop, control = asyncio.get_running_loop(), self.place.control
        self._coordinator = coordinator = self._new_coordinator()
        coordinator.wait(await self._patience())
        if control is not None and control.pods > 1:
            self._server = ControlServer(coordinator, self._setting.specification, self._secret())
            await self._server.listen(self.place.bind, control.port)

        # Through the loop, as if over a wire: neither is called while it is in the middle of something.
        def to_pod(message: Downward) -> None:
            loop.call_soon(self.pod.heard, message)

        def to_coordinator(message: Upward) -> None:
            loop.call_soon(coordinator.heard, own, message)

        own = Peer(0, self.place.host, to_pod)
        self.pod.connect(to_coordinator)
        coordinator.add_own_pod(own)

    async def _follow(self) -> None:
        control = self.place.control
        assert control is not None  # noqa: S101 - a pod that nothing connects leads itself
        self._client = ControlClient(
            self._setting.specification, self._secret(), self.place, control, self.pod, await self._patience(),
            self._before is not None,
        )
        await self._client.follow()

    async def _patience(self) -> float:
        """For pods that are missing. One that is new in a run that has begun leaves no sooner than those that wait for it."""
        life = self._setting.spec.lifecycle
        if self._before is not None:
            return self._before.wait_seconds
        if life.recovery is None or not await self._history.has_begun():
            return life.peer_wait_seconds
        return max(life.peer_wait_seconds, life.recovery.wait_seconds)

    def _secret(self) -> bytes | None:
        return read_secret(self._setting.spec.world.control_secret)

    @property
    def retries(self) -> int:
        """Attempts that have failed by themselves, as far as this pod knows."""
        known = 0 if self._before is None else self._before.retries
        return known if self._coordinator is None else self._coordinator.retries

    async def _note_end(self, code: ExitCode) -> None:
        if self._coordinator is None or self._coordinator.attempt is None:
            return
        if (ended := self._coordinator.ended_with) is not None:
            code = ExitCode(ended.code)
        try:
            await asyncio.wait_for(self._history.end(self._coordinator.attempt, code, self.committed_step), LEDGER_SECONDS)
        except (PodError, TimeoutError) as error:
            get_log().warning("ledger_not_written", reason=str(error) or "the volume did not answer")

    async def _say_farewell(self) -> None:
        """Let the last word arrive; node 0 leaves after the others, who would take its absence for a failure."""
        if self._server is not None:
            await self._server.close(self._farewell_seconds())
        if self._taking_part is None:
            return
        if self._client is not None and self._client.connected:
            self._client.finish()
            await asyncio.wait({self._taking_part}, timeout=FLUSH_SECONDS)
        self._taking_part.cancel()

    def _farewell_seconds(self) -> float:
        if self._coordinator is None or self._coordinator.attempt is None:
            return 0  # nothing has begun: those who wait go on waiting for the next node 0
        if self.pod.deadline is None:
            return FAREWELL_SECONDS
        return max(0.0, self.pod.deadline - asyncio.get_running_loop().time()) + 1  # others may still be saving


async def _nothing() -> None:
    pass


class LoneCoordinator(Coordinator):
    """Decides for its own pod alone.

    To stop or to save takes the ranks of every pod, and those agree among themselves: through a collective at each boundary. So
    no rank is asked where it is, and no answer is awaited; the grace period bounds it.

    Args:
        attempt: Nonce of the attempt, where the pods have agreed on one. Default: this pod's own.
    """

    def __init__(
        self, spec: RunSpec, sha256: str, history: History, measurements: Measurements, attempt: str | None = None
    ) -> None:
        super().__init__(spec, sha256, 1, history, measurements)
        self.nonce = attempt or self.nonce

    def lose(self, cause: Cause) -> None:
        """Another pod fell silent. Its ranks may be stopped with open connections, and these would wait for them for ever."""
        if self.state == "running" and self._stop == "no":
            get_log().error("peer_lost", reason=cause.message)
            self._everyone_obeys(leave_without_peer(cause, silent=True))

    def _grant(self, request: int) -> None:
        if self._spec.world.nodes == 1 and self._spec.world.rendezvous.kind != "c10d":
            return super()._grant(request)
        why = "nothing connects the pods of this run, so that they cannot commit together; let the script save by itself"
        self._tell_everyone(Given(request=request, error=why))

    @property
    def _save_every(self) -> float | None:
        """One pod asks for the periodic saves: the one that keeps the run's history."""
        return super()._save_every if self._history.keeps else None

    def _ask(self, action: Action) -> None:
        if action == "stop":
            self._stop = "agreed"
        else:
            self._saving = True
            self._save_after(self._save_every)
        self._tell_everyone(Ask(action=action))
