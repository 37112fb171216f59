"""The environment of a rank."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest
from tests.processes import PATIENCE_SECONDS, wait_until
from tests.trainer.supervisor.conftest import specification
from tests.trainer.supervisor.pods import parent_of

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


ANSWERS = """
import os, socket, subprocess, sys
line = socket.socket(fileno=int(sys.argv[1]))
line.send(b"ready")
words, descriptors, *_ = socket.recv_fds(line, 65536, 2)
line.send(str(subprocess.Popen(["sleep", "600"]).pid).encode())
socket.recv_fds(line, 65536, 2)
"""
"""In the place of what ranks are forked from: answers as that does, and ends at the second request."""


CANNOT_FORK = """
import errno, os, socket, sys
from trainwright_trainer.rank import template
fork, own = os.fork, os.getpid()
def first_alone():
    if os.getpid() != own:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
    return fork()
os.fork = first_alone
with socket.socket(fileno=int(sys.argv[1])) as line:
    line.send(b"ready")
    while template._next(line) is not None:
        template._forked(line, os.getppid())
"""
"""What ranks are forked from, where the limit on processes lets it fork once."""


class Run:
    """A launcher in an event loop, whose ranks sleep."""

    def __init__(self, template: str) -> None:
        self.pids = list[int]()
        self.owner = Heard()
        self.launcher = LocalLauncher(
            [0], ["sleep", "600"],
            lambda local_rank, start, link: {**os.environ, **attempt_variables(start.attempt, start.resume_before)},
            template=(sys.executable, "-c", template),
        )

    def start(self) -> int:
        [rank] = self.launcher.start(Start(attempt="abc", committed_step=40, resume_before=40), self.owner)
        rank.hear(PhaseChanged(phase="training"))
        assert rank.pid is not None
        self.pids.append(rank.pid)
        return rank.pid

    async def reaped(self, pid: int, status: int = 0) -> None:
        """It has ended, and the launcher has heard so."""
        while os.waitpid(pid, os.WNOHANG) == (0, 0):
            await asyncio.sleep(0.01)
        self.launcher.child_ended(pid, status)

    def clean_up(self) -> None:
        for pid in {*self.pids, *self.launcher.waiting}:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)


def playing(act: Callable[[Run], Awaitable[None]], template: str = ANSWERS) -> None:
    async def play() -> None:
        run = Run(template)
        try:
            await act(run)
        finally:
            run.clean_up()

    asyncio.run(asyncio.wait_for(play(), PATIENCE_SECONDS))


async def ready(run: Run) -> int:
    """What ranks are forked from, once it is ready."""
    [template] = run.launcher.waiting
    while run.launcher._template is None or not run.launcher._template.ready:
        await asyncio.sleep(0.01)
    return template


def test_what_ranks_are_forked_from_does_not_know_where_an_attempt_resumed() -> None:
    """Else they would pass over what that attempt committed: what they are told adds variables, and takes none away."""

    async def act(run: Run) -> None:
        first = run.start()
        wait_until(lambda: f"{RESUME_BEFORE_ENV}=40" in variables(first), "the first rank")
        template = await ready(run)
        assert f"{ATTEMPT_ENV}=abc" in variables(template)
        assert not [line for line in variables(template) if line.startswith(RESUME_BEFORE_ENV)]

    playing(act)


def test_ranks_are_forked_once_it_is_ready_and_started_where_it_is_gone() -> None:
    async def act(run: Run) -> None:
        first, second = run.start(), run.start()
        template = await ready(run)
        third = run.start()
        assert [parent_of(pid) for pid in (first, second, third)] == [os.getpid(), os.getpid(), template]
        assert parent_of(run.start()) == os.getpid(), "it ends instead of an answer"
        await run.reaped(template)
        assert parent_of(run.start()) == os.getpid()
        assert not run.launcher.waiting, "another one would end, too"

    playing(act)


def test_one_that_dies_is_made_again_once_in_an_attempt() -> None:
    async def act(run: Run) -> None:
        run.start()
        first = await ready(run)
        os.kill(first, signal.SIGKILL)
        await run.reaped(first, -signal.SIGKILL)
        [rank] = run.launcher._ranks
        rank.hear(PhaseChanged(phase="training"))
        assert not run.launcher.waiting, "it was made in this attempt, and may die at once each time"
        assert parent_of(run.start()) == os.getpid()
        second = await ready(run)
        assert parent_of(run.start()) == second != first

    playing(act)


def test_one_that_does_not_answer_ends_the_attempt_for_a_rank_may_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainwright_trainer.supervisor.pod.launcher.FORK_SECONDS", 0.05)

    async def act(run: Run) -> None:
        run.start()
        template = await ready(run)
        os.kill(template, signal.SIGSTOP)
        with pytest.raises(TimeoutError, match="does not answer"):
            run.start()
        await run.reaped(template)

    playing(act)


def test_a_rank_that_cannot_be_forked_is_started() -> None:
    async def act(run: Run) -> None:
        run.start()
        template = await ready(run)
        assert parent_of(run.start()) == os.getpid()
        await run.reaped(template)

    playing(act, CANNOT_FORK)


def test_a_template_that_ends_by_itself_costs_nothing() -> None:
    async def act(run: Run) -> None:
        run.start()
        [template] = run.launcher.waiting
        await run.reaped(template)
        assert parent_of(run.start()) == os.getpid()
        assert run.owner.ended == []

    playing(act, "raise SystemExit(1)")


def variables(pid: int | None) -> list[str]:
    return Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")


class Heard:
    """A pod that only notes which of its ranks have ended."""

    def __init__(self) -> None:
        self.ended = list[tuple[int, int]]()

    def rank_said(self, rank: Rank, message: FromRankMessage) -> None:
        pass

    def rank_ended(self, rank: Rank, status: int) -> None:
        self.ended.append((rank.number, status))

    def rank_lost(self, rank: Rank, why: str) -> None:
        pass

    def leave(self, code: ExitCode, cause: Cause) -> None:
        pass

    def end_if_all_ended(self) -> None:
        pass
