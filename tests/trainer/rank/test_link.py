"""Links over real sockets, with threads for ranks and for their coordinator."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from itertools import islice
from typing import IO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainwright_trainer.contract.exit_codes import Cause, ExitCode
from trainwright_trainer.contract.metrics import StepSplit
from trainwright_trainer.rank.link import SupervisorLink
from trainwright_trainer.rank.messages import (
    FROM_RANK,
    Act,
    Action,
    At,
    Carry,
    Committed,
    FromRankMessage,
    Heartbeat,
    Measured,
    Pace,
    Pause,
    PhaseChanged,
    Result,
)

PATIENCE_SECONDS = 30


class Supervisor:
    """The other end of one link."""

    def __init__(self) -> None:
        self.socket, self.theirs = socket.socketpair()
        self.socket.settimeout(PATIENCE_SECONDS)
        self.file: IO[bytes] = self.socket.makefile("rb")
        self.lost = threading.Event()

    def link(self, beat_seconds: float = 3600) -> SupervisorLink:
        return SupervisorLink(self.theirs, on_lost=self.lost.set, beat_seconds=beat_seconds)

    def say(self, message: Pause | Act | Carry) -> None:
        self.socket.sendall(message.model_dump_json().encode() + b"\n")

    def hear(self) -> FromRankMessage:
        return FROM_RANK.validate_json(self.file.readline())

    def close(self) -> None:
        self.file.close()
        self.socket.close()


@pytest.fixture
def supervisor() -> Iterator[Supervisor]:
    end = Supervisor()
    yield end
    end.close()


def test_everything_said_arrives(supervisor: Supervisor) -> None:
    link = supervisor.link()
    link.phase("training", 3)
    link.measured({"trainwright_step": 3})
    link.committed(3, 0.5)
    link.result(ExitCode.DIVERGED, Cause(rank=1, kind="DivergedError", message="no"), 4)
    assert [supervisor.hear() for _ in range(4)] == [
        PhaseChanged(phase="training", step=3), Measured(values={"trainwright_step": 3}), Committed(step=3, seconds=0.5),
        Result(code=14, cause=Cause(rank=1, kind="DivergedError", message="no"), step=4),
    ]


def test_held_until_the_answer(supervisor: Supervisor) -> None:
    link = supervisor.link()
    assert link.boundary(1) is None
    supervisor.say(Pause(request=1))
    assert supervisor.hear() == At(request=1, tick=1)
    passed: list[Action | None] = []
    rank = threading.Thread(target=lambda: passed.append(link.boundary(2)), daemon=True)
    rank.start()
    rank.join(0.1)
    assert rank.is_alive()
    supervisor.say(Act(request=1, action="save", tick=2))
    rank.join(PATIENCE_SECONDS)
    assert passed == ["save"]


def test_unknown_message_is_passed_over(supervisor: Supervisor) -> None:
    link = supervisor.link()
    link.boundary(1)
    supervisor.socket.sendall(b'{"type":"from-the-future"}\nnot json\n')
    supervisor.say(Pause(request=1))
    assert supervisor.hear() == At(request=1, tick=1)


def test_message_in_pieces(supervisor: Supervisor) -> None:
    supervisor.link().boundary(5)
    for byte in Pause(request=9).model_dump_json().encode() + b"\n":
        supervisor.socket.sendall(bytes([byte]))
    assert supervisor.hear() == At(request=9, tick=5)


def test_supervisor_gone(supervisor: Supervisor) -> None:
    supervisor.link()
    supervisor.close()
    assert supervisor.lost.wait(PATIENCE_SECONDS)


@given(pauses=st.lists(st.floats(0, 0.002), min_size=2, max_size=4), wait=st.floats(0, 0.01))
@settings(max_examples=25, deadline=None)
def test_all_ranks_stop_at_one_tick(pauses: list[float], wait: float) -> None:
    """Ranks meet in every tick, as a collective makes them, and are asked at any moment."""
    supervisors = [Supervisor() for _ in pauses]
    links = [supervisor.link() for supervisor in supervisors]
    collective = threading.Barrier(len(links))
    stopped: dict[int, int] = {}

    def train(rank: int) -> None:
        tick = 0
        while True:
            tick += 1
            if links[rank].boundary(tick) == "stop":
                stopped[rank] = tick
                return
            time.sleep(pauses[rank])
            collective.wait(PATIENCE_SECONDS)

    ranks = [threading.Thread(target=train, args=(rank,), daemon=True) for rank in range(len(links))]
    for thread in ranks:
        thread.start()
    time.sleep(wait)
    ticks: list[int | None] = []
    request = 0
    while not ticks or None in ticks:  # asked before every rank began: let go and ask again
        request += 1
        for supervisor in supervisors:
            supervisor.say(Pause(request=request))
        answers = [supervisor.hear() for supervisor in supervisors]
        ticks = [answer.tick for answer in answers if isinstance(answer, At)]
        if None in ticks:
            for supervisor in supervisors:
                supervisor.say(Carry(request=request))
    agreed = max(tick for tick in ticks if tick is not None) + 1
    for supervisor in supervisors:
        supervisor.say(Act(request=request, action="stop", tick=agreed))
    for thread in ranks:
        thread.join(PATIENCE_SECONDS)
    assert stopped == dict.fromkeys(range(len(links)), agreed)
    for supervisor in supervisors:
        supervisor.close()


def test_signs_of_life_come_whatever_the_main_thread_does_until_the_last_word(supervisor: Supervisor) -> None:
    link = supervisor.link(beat_seconds=0.02)
    link.boundary(1)
    link.mark()
    time.sleep(0.2)
    heard = (supervisor.hear() for _ in range(1000))  # the first ones may have come before the mark
    beats = [next(beat for beat in heard if isinstance(beat, Heartbeat) and beat.marks == 2), *islice(heard, 4)]
    assert all(isinstance(beat, Heartbeat) and (beat.tick, beat.marks) == (1, 2) for beat in beats)
    idle = [beat.idle_seconds for beat in beats if isinstance(beat, Heartbeat)]
    assert idle == sorted(idle)
    assert idle[-1] > idle[0]
    link.result(ExitCode.DONE)
    time.sleep(0.1)
    supervisor.theirs.shutdown(socket.SHUT_WR)
    rest = [FROM_RANK.validate_json(line) for line in supervisor.file]
    assert isinstance(rest[-1], Result)


def test_a_pace(supervisor: Supervisor) -> None:
    split = StepSplit(step_seconds=0.5, waited_seconds=0.25, data_seconds=0.125)
    supervisor.link().pace(10, split)
    assert supervisor.hear() == Pace(step=10, split=split)
