"""The environment of a rank."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from tests.processes import wait_until
from tests.trainer.supervisor.conftest import specification

from trainwright_trainer.contract.exit_codes import Cause, ExitCode
from trainwright_trainer.contract.layout import RANK_ENVIRONMENT, SPEC_ENV
from trainwright_trainer.rank.messages import ATTEMPT_ENV, RESUME_BEFORE_ENV, FromRankMessage, PhaseChanged
from trainwright_trainer.run.link import LINK_FD_ENV
from trainwright_trainer.supervisor.pod.launcher import LocalLauncher, attempt_variables, rank_environment
from trainwright_trainer.supervisor.pod.rank import Rank
from trainwright_trainer.supervisor.wire.messages import Start


def test_everything_a_rank_reads(tmp_path: Path) -> None:
    world = specification(tmp_path, 4, 2, None, "127.0.0.").world
    found = rank_environment(
        {"PATH": "/bin", "RANK": "77"}, world, node=3, local_rank=1, attempt="abc", specification=Path("/run.json"), link=9
    )
    assert set(found) == {"PATH", "OMP_NUM_THREADS", SPEC_ENV, ATTEMPT_ENV, LINK_FD_ENV, *RANK_ENVIRONMENT}
    assert (found["RANK"], found["LOCAL_RANK"], found["WORLD_SIZE"], found["GROUP_RANK"]) == ("7", "1", "8", "3")
    assert (found[SPEC_ENV], found[ATTEMPT_ENV], found[LINK_FD_ENV]) == ("/run.json", "abc", "9")


def test_a_choice_of_threads_is_kept(tmp_path: Path) -> None:
    world = specification(tmp_path, 1, 1, None, "127.0.0.").world
    found = rank_environment(
        {"OMP_NUM_THREADS": "13"}, world, node=0, local_rank=0, attempt="abc", specification=Path("/run.json"), link=9
    )
    assert found["OMP_NUM_THREADS"] == "13"


def test_an_attempt_that_passes_over_the_newest_commit(tmp_path: Path) -> None:
    assert attempt_variables("abc", None) == {ATTEMPT_ENV: "abc"}
    assert attempt_variables("abc", 40) == {ATTEMPT_ENV: "abc", RESUME_BEFORE_ENV: "40"}
    world = specification(tmp_path, 1, 1, None, "127.0.0.").world
    found = rank_environment(
        {}, world, node=0, local_rank=0, attempt="abc", specification=Path("/run.json"), link=9, resume_before=40
    )
    assert found[RESUME_BEFORE_ENV] == "40"


def test_a_rank_that_waits_does_not_know_where_the_attempt_before_it_resumed() -> None:
    """Else it would pass over what that attempt committed: what it is told adds variables, and takes none away."""

    async def start_and_train() -> None:
        launcher = LocalLauncher(
            [0], ["sleep", "600"],
            lambda local_rank, start, link: {**os.environ, **attempt_variables(start.attempt, start.resume_before)},
            prepares=True,
        )
        pids = list[int]()
        try:
            [rank] = launcher.start(Start(attempt="abc", committed_step=40, resume_before=40), Unheard())
            assert rank.pid is not None
            pids.append(rank.pid)
            rank.hear(PhaseChanged(phase="training"))
            [standby] = launcher.waiting
            pids.append(standby)
            wait_until(lambda: f"{RESUME_BEFORE_ENV}=40" in variables(rank.pid), "the first rank")
            wait_until(lambda: f"{ATTEMPT_ENV}=abc" in variables(standby), "the one that waits")
            assert not [line for line in variables(standby) if line.startswith(RESUME_BEFORE_ENV)]
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)

    asyncio.run(start_and_train())


def variables(pid: int | None) -> list[str]:
    return Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")


class Unheard:
    """A pod that does nothing about what it is told."""

    def rank_said(self, rank: Rank, message: FromRankMessage) -> None:
        pass

    def rank_ended(self, rank: Rank, status: int) -> None:
        pass

    def rank_lost(self, rank: Rank, why: str) -> None:
        pass

    def leave(self, code: ExitCode, cause: Cause) -> None:
        pass

    def end_if_all_ended(self) -> None:
        pass
