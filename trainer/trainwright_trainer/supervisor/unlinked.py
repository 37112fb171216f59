"""What a supervisor does differently where nothing links it with those of the other pods."""

from __future__ import annotations

from trainwright_trainer.contract.exit_codes import ExitCode
from trainwright_trainer.contract.spec import RunSpec
from trainwright_trainer.observe.metrics import Measurements
from trainwright_trainer.rank.messages import Action, Ask
from trainwright_trainer.supervisor.run.coordinator import Coordinator
from trainwright_trainer.supervisor.run.history import Beginning, History, on_volume


class UnlinkedCoordinator(Coordinator):
    """Decides for its own pod alone.

    To stop or to save takes the ranks of every pod, and those agree among themselves: through a collective at each boundary. So
    nobody is asked where he is, and nobody waits for an answer; the grace period bounds it.

    Args:
        attempt: Nonce of the attempt, where the pods have agreed on one. Default: this pod's own.
    """

    def __init__(
        self, spec: RunSpec, sha256: str, history: History, measurements: Measurements, attempt: str | None = None
    ) -> None:
        super().__init__(spec, sha256, 1, history, measurements)
        self._nonce = attempt or self._nonce

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


class OtherPodsHistory(History):
    """The history of a run for a pod that does not keep it: reads, and writes nothing."""

    keeps = False

    async def begin(self, attempt: str) -> Beginning:
        directory = self._directory
        return Beginning(None if directory is None else await on_volume(lambda: self._newest_commit(directory)), 0)

    async def note_times(self) -> None:
        pass

    async def end(self, attempt: str, code: ExitCode, committed_step: int | None) -> None:
        pass

    async def complete(self, attempt: str, step: int) -> None:
        pass
