"""A pod that is told to end while its attempt ends joins no other one, whatever it is in the middle of."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path

import pytest
from tests.processes import PATIENCE_SECONDS, own_network
from tests.trainer.supervisor.conftest import specification

from trainwright_trainer.contract import Cause, ExitCode
from trainwright_trainer.contract.spec_file import Specification
from trainwright_trainer.observe.metrics import Measurements
from trainwright_trainer.supervisor.place import pod_place
from trainwright_trainer.supervisor.pod.launcher import LocalLauncher, Setting
from trainwright_trainer.supervisor.pod.outcome import PodOutcome
from trainwright_trainer.supervisor.pod.shared_memory import SharedMemory
from trainwright_trainer.supervisor.run import recovery
from trainwright_trainer.supervisor.run.history import History
from trainwright_trainer.supervisor.run.recovery import RecoveringRole
from trainwright_trainer.supervisor.wire.messages import Leave, Start, Verdict


class Waiting:
    """A pod without ranks, whose node 0 never comes. It asks whether the run is complete, and hears so when the test says."""

    def __init__(self, directory: Path) -> None:
        spec = specification(directory, 2, 1, None, own_network(), recovery={"restarts": 3, "wait_seconds": 0.01})
        assert spec.lifecycle.recovery is not None
        setting = Setting({}, Specification(directory / "run.json", "a" * 64, spec), (), None, Measurements())
        place = pod_place({"NODE_INDEX": "1"}, spec.world)
        self.role = RecoveringRole(setting, place, spec.lifecycle.recovery, LocalLauncher([], (), lambda *_: {}))
        self.pod = self.role._current.pod
        self.questions, self.answered = asyncio.Queue[None](), asyncio.Event()

    async def is_complete(self) -> bool:
        self.questions.put_nowait(None)
        await self.answered.wait()
        return False


Tell = Callable[[Waiting], Awaitable[None]]


async def after_node_0_let_it_go(waiting: Waiting) -> None:
    """Before anything else has run."""
    cause = Cause(kind="PeerLost", message="node 2 is lost")
    waiting.pod.heard(Leave(code=ExitCode.PEER_LOST, cause=cause, patience_seconds=0, again=True))
    waiting.role.told_to_end("SIGTERM")


async def while_it_looks_for_the_marker(waiting: Waiting) -> None:
    """Done, and with the verdict that another attempt follows."""
    waiting.pod.heard(Start(attempt="abc", committed_step=None))
    waiting.pod.end_if_all_ended()
    waiting.pod.heard(Verdict(again=True))
    await waiting.questions.get()
    waiting.role.told_to_end("SIGTERM")


@pytest.mark.parametrize("tell", [after_node_0_let_it_go, while_it_looks_for_the_marker])
def test_no_other_attempt_follows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tell: Tell) -> None:
    async def nothing_left(seconds: float, but: Collection[int]) -> list[int]:
        return []

    async def outcome() -> PodOutcome:
        waiting = Waiting(tmp_path)
        monkeypatch.setattr(History, "is_complete", lambda history: waiting.is_complete())
        ends = asyncio.ensure_future(waiting.role.run_to_end())
        await waiting.questions.get()
        await tell(waiting)
        waiting.answered.set()
        return await ends

    monkeypatch.setattr(recovery, "clear", nothing_left)  # it would kill what other tests have started
    monkeypatch.setattr(recovery, "SharedMemory", lambda: SharedMemory(tmp_path))
    ended = asyncio.run(asyncio.wait_for(outcome(), PATIENCE_SECONDS))
    assert ended.code is ExitCode.PREEMPTED_NOT_SAVED
    assert ended.cause is not None
    assert "was told to end by SIGTERM" in ended.cause.message
