"""Recovery in place: the role of a pod that outlives its attempts.

An attempt is the supervisors' agreement. When one has ended in every pod and another may follow, each pod clears away what its
ranks left and joins the next one on node 0, which starts it once all are there. So no rank of an attempt begins before every
process of the one before is gone, and a pod that is lost is simply waited for.
"""

from __future__ import annotations

from dataclasses import replace

from trainwright_trainer.contract.exit_codes import Cause, ExitCode
from trainwright_trainer.contract.spec import Recovery
from trainwright_trainer.observe.log import get_log
from trainwright_trainer.supervisor.event_loop import in_daemon_thread
from trainwright_trainer.supervisor.place import PodPlace
from trainwright_trainer.supervisor.pod.launcher import LocalLauncher, Setting
from trainwright_trainer.supervisor.pod.outcome import PodOutcome
from trainwright_trainer.supervisor.pod.pod import REAP_SECONDS, not_reaped
from trainwright_trainer.supervisor.pod.rank import clear
from trainwright_trainer.supervisor.pod.shared_memory import SharedMemory
from trainwright_trainer.supervisor.run.attempt import Attempt, connected_attempt
from trainwright_trainer.supervisor.run.coordinator import Before


class RecoveringRole:
    """A :class:`Role` of one attempt after the other, in pods that are connected to node 0's.

    Args:
        launcher: Starts the ranks of each attempt.
    """

    def __init__(self, setting: Setting, place: PodPlace, recovery: Recovery, launcher: LocalLauncher) -> None:
        self.place = place
        self._setting, self._recovery, self._launcher = setting, recovery, launcher
        self._memory = SharedMemory()
        self._current = connected_attempt(setting, place, launcher)
        self._last: Attempt | None = None
        self._last_outcome: PodOutcome | None = None
        self._between = False
        self._over: PodOutcome | None = None
        """What the pod ends with where another attempt would follow."""

    @property
    def attempt(self) -> str | None:
        return self._current.attempt or (self._last.attempt if self._last else None)

    @property
    def step(self) -> int | None:
        return self._last.step if self._current.step is None and self._last else self._current.step

    @property
    def committed_step(self) -> int | None:
        known = self._current.committed_step
        return self._last.committed_step if known is None and self._last else known

    async def run_to_end(self) -> PodOutcome:
        while True:
            decided = await self._current.run_to_end()
            if not decided.again:
                return self._as_before(decided)
            if self._current.attempt is not None:  # else it never began, and those before it say more
                self._last, self._last_outcome = self._current, decided
            self._between = True
            await self._current.leave(decided)
            if left := await clear(REAP_SECONDS, self._launcher.waiting):
                return not_reaped(self.place, [f"process {pid}" for pid in left])
            await in_daemon_thread(self._memory.clear)
            if self._over is not None:
                return self._as_before(self._over)
            self._begin_another(decided)

    def _begin_another(self, decided: PodOutcome) -> None:
        get_log().info("joins_another_attempt", code=int(decided.code), reason=decided.cause.message if decided.cause else None)
        before = Before(self._recovery.wait_seconds, self._current.retries, decided.cause)
        self._current = connected_attempt(self._setting, self.place, self._launcher, before)
        self._between = False

    def _as_before(self, decided: PodOutcome) -> PodOutcome:
        """A pod that is told to end while it waits has lost nothing since the attempt before."""
        idle = self._between or self._current.attempt is None
        saved = self._last_outcome is not None and self._last_outcome.code is ExitCode.PREEMPTED_SAVED
        if decided.code is ExitCode.PREEMPTED_NOT_SAVED and idle and saved:
            return replace(decided, code=ExitCode.PREEMPTED_SAVED)
        return decided

    async def leave(self, decided: PodOutcome) -> None:
        if not self._between:  # else it was left already
            await self._current.leave(decided)

    def told_to_end(self, signal_name: str) -> None:
        """Noted at any time: an attempt that is over, or whose verdict has come, does not act on it any more."""
        if self._over is None:
            cause = Cause(kind="ToldToEnd", message=f"{self.place} was told to end by {signal_name}")
            self._over = PodOutcome(ExitCode.PREEMPTED_NOT_SAVED, cause)
        self._current.told_to_end(signal_name)

    def child_ended(self, pid: int, status: int) -> None:
        self._current.child_ended(pid, status)

    def fail(self, cause: Cause) -> None:
        self._over = PodOutcome(ExitCode.INTERNAL, cause)
        self._current.fail(cause)
