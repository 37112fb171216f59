"""Failures of the supervisor itself, in a run that recovers in place: each is counted once, by node 0 or by the controller."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import pytest
from tests.processes import PATIENCE_SECONDS, own_network
from tests.trainer.supervisor.conftest import specification

from trainwright_trainer.checkpoint.ledger import Ledger
from trainwright_trainer.contract import Cause, ExitCode
from trainwright_trainer.contract.ledger import AttemptEnded
from trainwright_trainer.contract.spec_file import Specification
from trainwright_trainer.observe.metrics import Measurements
from trainwright_trainer.supervisor.place import pod_place
from trainwright_trainer.supervisor.pod.launcher import LocalLauncher, Owner, Setting
from trainwright_trainer.supervisor.pod.outcome import PodOutcome
from trainwright_trainer.supervisor.pod.rank import Rank
from trainwright_trainer.supervisor.pod.shared_memory import SharedMemory
from trainwright_trainer.supervisor.run import recovery
from trainwright_trainer.supervisor.run.recovery import RecoveringRole
from trainwright_trainer.supervisor.wire.messages import Start

Act = Callable[[RecoveringRole, Owner], None]


class Acting(LocalLauncher):
    """Starts no rank, and does in each attempt what the test says."""

    def __init__(self, acts: Sequence[Act]) -> None:
        super().__init__([], (), lambda *_: {})
        self.acts = iter(acts)
        self.role: RecoveringRole | None = None

    def start(self, start: Start, owner: Owner) -> Sequence[Rank]:
        assert self.role is not None
        next(self.acts)(self.role, owner)
        return []


def cannot_start(role: RecoveringRole, owner: Owner) -> None:
    raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")


def is_done(role: RecoveringRole, owner: Owner) -> None:
    asyncio.get_running_loop().call_soon(owner.end_if_all_ended)


def has_an_error(role: RecoveringRole, owner: Owner) -> None:
    asyncio.get_running_loop().call_soon(role.fail, Cause(kind="KeyError", message="unexpected error in the supervisor"))


@pytest.mark.parametrize(("acts", "code", "noted", "retries"), [
    ([cannot_start, is_done], ExitCode.DONE, [ExitCode.INTERNAL, ExitCode.DONE], 1),
    ([has_an_error], ExitCode.INTERNAL, [ExitCode.PEER_LOST], 0),
])  # fmt: skip
def test_counted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, acts: Sequence[Act], code: ExitCode, noted: list[int], retries: int
) -> None:
    async def nothing_left(seconds: float, but: Collection[int]) -> list[int]:
        return []

    async def outcome() -> PodOutcome:
        spec = specification(tmp_path, 1, 1, None, own_network(), recovery={"restarts": 3, "wait_seconds": 900})
        assert spec.lifecycle.recovery is not None
        setting = Setting({}, Specification(tmp_path / "run.json", "a" * 64, spec), (), None, Measurements())
        launcher = Acting(acts)
        launcher.role = RecoveringRole(setting, pod_place({"NODE_INDEX": "0"}, spec.world), spec.lifecycle.recovery, launcher)
        decided = await launcher.role.run_to_end()
        await launcher.role.leave(decided)
        return decided

    monkeypatch.setattr(recovery, "clear", nothing_left)  # it would kill what other tests have started
    monkeypatch.setattr(recovery, "SharedMemory", lambda: SharedMemory(tmp_path))
    assert asyncio.run(asyncio.wait_for(outcome(), PATIENCE_SECONDS)).code is code
    ledger = Ledger(tmp_path / "state")
    assert [event.code for event in ledger.events() if isinstance(event, AttemptEnded)] == noted
    assert ledger.past("fake-1a2b3c").retries == retries
