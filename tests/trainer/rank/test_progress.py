"""What a rank's main thread passes and says."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from trainwright_trainer.rank.messages import Action, Heartbeat
from trainwright_trainer.run.progress import ENOUGH_TICKS, Hold, Progress

END = 12
"""Ticks of the toy run."""


class Agreement(RuleBasedStateMachine):
    """Ranks that need each other in every tick, and a coordinator whose messages arrive at any later time, in order per rank."""

    @initialize(world=st.integers(1, 4))
    def start(self, world: int) -> None:
        self.ranks = [Hold() for _ in range(world)]
        self.entered = [0] * world  # the tick each rank is in
        self.acted: list[dict[int, Action]] = [{} for _ in range(world)]
        self.wires: list[list[tuple[str, int, Action, int]]] = [[] for _ in range(world)]
        self.request = 0
        self.answers: dict[int, int | None] = {}
        self.asking: Action | None = None

    def others_are_in(self, rank: int) -> bool:
        """Whether a rank can finish its tick: a collective in it needs everybody in that tick, or beyond it."""
        return all(entered >= self.entered[rank] for entered in self.entered)

    def may_go_on(self, rank: int) -> bool:
        return not self.ranks[rank].held and self.entered[rank] < END and self.others_are_in(rank) and not self.stopped(rank)

    def stopped(self, rank: int) -> bool:
        return "stop" in self.acted[rank].values()

    @rule(rank=st.integers(0, 3))
    def next_tick(self, rank: int) -> None:
        rank %= len(self.ranks)
        if self.may_go_on(rank):
            self.entered[rank] += 1
            action = self.ranks[rank].enter(self.entered[rank])
            if action:
                self.acted[rank][self.entered[rank]] = action

    @precondition(lambda self: self.asking is None)
    @rule(action=st.sampled_from(["save", "stop"]))
    def ask(self, action: Action) -> None:
        self.request += 1
        self.asking, self.answers = action, {}
        for wire in self.wires:
            wire.append(("where", self.request, action, 0))

    @rule(rank=st.integers(0, 3))
    def deliver(self, rank: int) -> None:
        rank %= len(self.ranks)
        if not self.wires[rank]:
            return
        kind, request, action, tick = self.wires[rank].pop(0)
        if kind == "where":
            self.answers[rank] = self.ranks[rank].where(request)
            self.decide()
        elif kind == "act":
            self.ranks[rank].act(request, action, tick)
        else:
            self.ranks[rank].carry(request)

    def decide(self) -> None:
        if len(self.answers) < len(self.ranks) or self.asking is None:
            return
        ticks = [tick for tick in self.answers.values() if tick is not None]
        agreed = len(ticks) == len(self.ranks)
        for wire in self.wires:
            wire.append(("act", self.request, self.asking, max(ticks) + 1) if agreed else ("carry", self.request, self.asking, 0))
        self.asking = None

    @invariant()
    def nobody_acts_alone(self) -> None:
        """A rank that passed a boundary did there what every other rank that passed it did."""
        for rank, acted in enumerate(self.acted):
            for other, entered in enumerate(self.entered):
                if not self.stopped(other):
                    assert all(self.acted[other].get(tick) == action for tick, action in acted.items() if tick <= entered), rank

    @invariant()
    def somebody_can_move(self) -> None:
        """No deadlock: a message is on its way, a rank can go on, or all are done."""
        done = all(entered >= END or self.stopped(rank) for rank, entered in enumerate(self.entered))
        assert done or any(self.wires) or any(self.may_go_on(rank) for rank in range(len(self.ranks)))


TestAgreement = Agreement.TestCase
TestAgreement.settings = settings(max_examples=300, stateful_step_count=80, deadline=None)


def test_before_the_first_tick_nothing_is_held() -> None:
    hold = Hold()
    assert hold.where(1) is None
    assert not hold.held
    assert hold.enter(1) is None


def test_late_answer_to_an_earlier_request_lets_nobody_go() -> None:
    hold = Hold()
    hold.enter(1)
    hold.where(1)
    hold.where(2)
    hold.act(1, "save", 2)
    hold.carry(1)
    assert hold.held
    hold.act(2, "stop", 2)
    assert hold.enter(2) == "stop"


def test_stop_wins_over_save_at_one_boundary() -> None:
    hold = Hold()
    hold.enter(1)
    for request, action in ((1, "stop"), (2, "save")):
        hold.where(request)
        hold.act(request, action, 2)  # type: ignore[arg-type]
    assert hold.enter(2) == "stop"


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_from_the_start() -> None:
    clock = Clock()
    progress = Progress(clock)
    clock.now += 7
    assert Heartbeat.model_validate(progress.beat()) == Heartbeat(tick=None, marks=0, idle_seconds=7, tick_seconds=None)


def test_whatever_the_main_thread_says_is_progress() -> None:
    clock = Clock()
    progress = Progress(clock)
    said: list[Callable[[], None]] = [lambda: progress.phase("training"), lambda: progress.tick(1), progress.mark]
    for say in said:
        clock.now += 5
        say()
        assert progress.beat()["idle_seconds"] == 0
    assert progress.beat()["marks"] == 3
    assert progress.beat()["tick"] == 1


def test_the_median_of_ticks_of_this_phase() -> None:
    clock = Clock()
    progress = Progress(clock)
    progress.phase("training")
    for tick in range(1, ENOUGH_TICKS + 2):
        progress.tick(tick)
        clock.now += 60 if tick == 1 else 2
    assert progress.beat()["tick_seconds"] == 2
    progress.phase("evaluating")
    assert progress.beat()["tick_seconds"] is None
    progress.phase("training")
    assert progress.beat()["tick_seconds"] == 2


def test_a_tick_with_a_save_in_it_is_not_counted() -> None:
    clock = Clock()
    progress = Progress(clock)
    progress.phase("training")
    for tick in range(1, 30):
        progress.tick(tick)
        clock.now += 1
        progress.phase("saving")
        clock.now += 100
        progress.phase("training")
    assert progress.beat()["tick_seconds"] is None
