"""What an attempt starts from, by the ledger and the commits of its run."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.trainer.supervisor.conftest import specification, training_work

from trainwright_trainer.checkpoint import CheckpointStore, CommitRecord
from trainwright_trainer.contract import ExitCode
from trainwright_trainer.supervisor.run.history import Beginning, History


def commit(directory: Path, step: int, attempt: str = "before", identity: str = "fake-1a2b3c") -> None:
    store = CheckpointStore(directory)
    files = (store.begin(step, attempt).write("f", [b"x"]),)
    store.commit(
        CommitRecord(identity=identity, attempt=attempt, step=step, samples_consumed=step, world_size=1, files=files)
    )


class Chain:
    """Attempts at one run, one after the other."""

    def __init__(self, directory: Path, limit: int, work: dict[str, object] | None = None) -> None:
        self.directory = directory / "state"
        spec = specification(directory, 1, 1, work, "127.0.0.", attempts_without_progress=limit)
        self._history, self._count = History(spec), 0

    def attempt(self, code: ExitCode = ExitCode.INTERNAL) -> tuple[int, int | None]:
        """How many attempts got nowhere, this one included, and what it passes over."""
        return asyncio.run(self._attempt(code))

    async def _attempt(self, code: ExitCode) -> tuple[int, int | None]:
        self._count += 1
        beginning: Beginning = await self._history.begin(f"a{self._count}")
        await self._history.end(f"a{self._count}", code, beginning.committed_step)
        return beginning.past.attempts_without_progress, beginning.resume_before


@pytest.fixture
def chain(tmp_path: Path) -> Chain:
    return Chain(tmp_path, 3)


def test_the_last_attempt_passes_over_the_newest_commit(chain: Chain) -> None:
    for step in (30, 40):
        commit(chain.directory, step)
    assert [chain.attempt() for _ in range(4)] == [(1, None), (2, None), (3, 40), (4, None)]


def test_progress_begins_the_row_anew(chain: Chain) -> None:
    commit(chain.directory, 40)
    assert [chain.attempt() for _ in range(3)] == [(1, None), (2, None), (3, 40)]
    commit(chain.directory, 35, "a3")  # on the way, from an older commit
    commit(chain.directory, 44, "a3")
    assert [chain.attempt() for _ in range(3)] == [(1, None), (2, None), (3, 44)]


def test_a_last_attempt_that_is_preempted_is_had_again(chain: Chain) -> None:
    commit(chain.directory, 40)
    chain.attempt()
    chain.attempt()
    assert chain.attempt(ExitCode.PREEMPTED_SAVED) == (3, 40)
    commit(chain.directory, 35, "a3")
    assert chain.attempt(ExitCode.PREEMPTED_NOT_SAVED) == (3, 40)
    assert chain.attempt() == (3, 40)
    assert chain.attempt() == (4, None)


def test_a_run_of_one_attempt_begins_with_the_newest(tmp_path: Path) -> None:
    chain = Chain(tmp_path, 1)
    commit(chain.directory, 40)
    assert [chain.attempt() for _ in range(2)] == [(1, None), (2, None)]


def test_nothing_to_pass_over(chain: Chain, tmp_path: Path) -> None:
    assert [chain.attempt() for _ in range(4)] == [(1, None), (2, None), (3, None), (4, None)]
    anew = Chain(tmp_path / "anew", 2, training_work(tmp_path / "anew" / "state", resume="never"))
    commit(anew.directory, 40, identity="another-run")
    assert [anew.attempt() for _ in range(3)] == [(1, None), (2, None), (3, None)]
