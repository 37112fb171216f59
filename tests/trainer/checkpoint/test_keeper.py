"""Who keeps for a program: one attempt after the other, and also in a process that outlives the attempt."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from trainwright_trainer.checkpoint import CheckpointStore, LeaseLostError
from trainwright_trainer.checkpoint.keeper import Keeper
from trainwright_trainer.checkpoint.lease import LeaseTiming

PATIENT = LeaseTiming(expiry_seconds=60.0, patience_seconds=60.0)


def test_who_is_closed_while_it_waits_takes_no_lease(tmp_path: Path) -> None:
    """Nobody would release it: the process goes on, and so would the heartbeat."""
    holder = CheckpointStore(tmp_path).acquire_lease("run", "older", PATIENT)
    waits, ended = threading.Event(), list[str]()
    keeper = Keeper(str(tmp_path), "run", "closed", 1, patience_seconds=60.0, on_wait=lambda holder, seconds: waits.set())

    def look() -> None:
        try:
            keeper.newest()
        except LeaseLostError as error:
            ended.append(str(error))

    looks = threading.Thread(target=look)
    looks.start()
    assert waits.wait(30)
    keeper.close()
    looks.join(30)
    assert not looks.is_alive()
    assert ended == ["attempt closed of run has ended, and saves no more"]
    holder.release()
    next_one = CheckpointStore(tmp_path).acquire_lease("run", "newer", PATIENT)
    assert (next_one.holder.term, next_one.holder.attempt) == (2, "newer")
    next_one.release()


def test_who_is_closed_begins_nothing(tmp_path: Path) -> None:
    keeper = Keeper(str(tmp_path), "run", "closed", 1)
    keeper.draft(1)
    keeper.close()
    for call in (keeper.newest, lambda: keeper.draft(2), lambda: keeper.commit(1)):
        with pytest.raises(LeaseLostError):
            call()
