"""How long pods that have gathered wait for those that are missing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.processes import PATIENCE_SECONDS
from tests.trainer.supervisor.conftest import specification

from trainwright_trainer import __version__
from trainwright_trainer.contract import ExitCode, RunSpec
from trainwright_trainer.observe.metrics import Measurements
from trainwright_trainer.rank import software
from trainwright_trainer.supervisor.run.coordinator import Before, Coordinator
from trainwright_trainer.supervisor.run.history import History
from trainwright_trainer.supervisor.wire.control import Peer
from trainwright_trainer.supervisor.wire.messages import Bye, Downward, Join, Leave


def joins_again(coordinator: Coordinator, spec: RunSpec, node: int) -> Join:
    return Join(
        node=node, host=f"pod-{node}", sha256="a" * 64, version=__version__, identity=spec.identity, attempt=coordinator.nonce,
        versions=dict(software.installed()), again=True,
    )


@pytest.mark.parametrize("ends", [False, True], ids=["lost", "told to end"])
@pytest.mark.parametrize(("losses", "comes_back", "waits", "missing"), [
    ([590], True, 1490, 2),
    ([590], False, 900, 3),
    ([800, 1600], True, 1800, 3),
])  # fmt: skip
def test_each_pod_that_is_lost_is_awaited_as_long_and_all_twice_as_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: bool, losses: list[float], comes_back: bool, waits: float, missing: int
) -> None:
    """Node 3 is lost in the attempt before, and node 2 while it is awaited, and so on in turns. The clock is the test's own."""
    now, messages = 0.0, list[Downward]()

    async def pass_time(until: float) -> None:
        nonlocal now
        now = until
        for _ in range(3):  # to look at the clock, and to act
            await asyncio.sleep(0)

    async def gather() -> None:
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
        spec = specification(tmp_path, 4, 1, None, "127.0.0.", recovery={"restarts": 3, "wait_seconds": 900})
        coordinator = Coordinator(spec, "a" * 64, 4, History(spec), Measurements(), Before(900))

        def come(node: int) -> Peer:
            peer = Peer(node, f"pod-{node}", messages.append)
            coordinator.join(joins_again(coordinator, spec, node), peer)
            return peer

        coordinator.wait(900)
        coordinator.add_own_pod(Peer(0, "pod-0", messages.append))
        come(1)
        here, away = come(2), 3
        for loss in losses:
            await pass_time(loss)
            if ends:
                coordinator.heard(here, Bye(code=ExitCode.PREEMPTED_NOT_SAVED))
            coordinator.lost(here, "its connection ended", silent=False)
            if comes_back:
                here, away = come(away), here.node
        await pass_time(waits - 1)
        assert messages == []
        await pass_time(waits)

    asyncio.run(gather())
    causes = {message.cause.message for message in messages if isinstance(message, Leave)}
    assert causes == {f"1 of 4 nodes did not come back within 900 s: {missing}"}


def test_what_a_new_node_0_waits_for_may_not_come(tmp_path: Path) -> None:
    async def told() -> list[Downward]:
        spec = specification(tmp_path, 3, 1, None, "127.0.0.", recovery={"restarts": 3, "wait_seconds": 0.01})
        coordinator = Coordinator(spec, "a" * 64, 3, History(spec), Measurements())
        messages: asyncio.Queue[Downward] = asyncio.Queue()
        coordinator.wait(spec.lifecycle.peer_wait_seconds)
        coordinator.add_own_pod(Peer(0, "pod-0", messages.put_nowait))
        assert coordinator.join(joins_again(coordinator, spec, 1), Peer(1, "pod-1", messages.put_nowait)) is None
        return [await messages.get(), await messages.get()]

    leave = asyncio.run(asyncio.wait_for(told(), PATIENCE_SECONDS))
    assert {message.code for message in leave if isinstance(message, Leave)} == {ExitCode.PEER_LOST}
