"""One writer per lineage: the newest attempt, and none that was displaced commits or removes anything more."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.trainer.checkpoint.writers import FAST, LOST, Writers, check

from trainwright_trainer.checkpoint import (
    CheckpointStore,
    CommitRecord,
    Draft,
    Holder,
    LeaseLostError,
    LeaseTiming,
    open_volume,
)
from trainwright_trainer.checkpoint.lease import Lease, acquire, fence_drafts
from trainwright_trainer.contract import ExitCode

NEVER = replace(FAST, expiry_seconds=60.0, patience_seconds=60.0)
AT_ONCE = replace(FAST, patience_seconds=0.0)


def another(store: CheckpointStore) -> CheckpointStore:
    return CheckpointStore(store.directory)


def record_of(draft: Draft) -> CommitRecord:
    name = draft.name
    return CommitRecord(
        identity="i", attempt=name.attempt, step=name.step, samples_consumed=1, world_size=1, files=(draft.write("f", [b"x"]),)
    )


def test_released_is_taken_at_once(store: CheckpointStore) -> None:
    first = store.acquire_lease("run-1", "a", NEVER)
    assert first.holder == Holder(term=1, identity="run-1", attempt="a")
    first.release()
    second = another(store).acquire_lease("run-2", "b", NEVER)
    assert (second.holder.term, second.holder.attempt) == (2, "b")
    assert not second.lost
    second.check()
    with pytest.raises(LeaseLostError, match="released its lease"):
        first.check()
    second.release()
    assert sorted(os.listdir(store.directory / "lease")) == ["2.beat", "2.json"]


@pytest.mark.parametrize("name", ["12345678901234567890", str(2**53), "0", "notes"])
def test_a_number_that_no_lease_can_have_is_somebody_elses(store: CheckpointStore, name: str) -> None:
    folder = store.directory / "lease"
    folder.mkdir(parents=True)
    (folder / f"{name}.json").write_text("{}")
    lease = store.acquire_lease("run-1", "a", NEVER)
    assert lease.holder.term == 1
    lease.check()
    lease.release()
    assert (folder / f"{name}.json").exists()


def test_a_dead_holder_is_waited_for_until_its_heart_stood_still(store: CheckpointStore) -> None:
    dead = store.acquire_lease("i", "a", FAST)
    dead._ended.set()  # what a kill does: no beat more, and no release
    heard: list[Holder] = []
    timing = replace(FAST, expiry_seconds=0.2, patience_seconds=600.0)
    started = time.monotonic()
    lease = another(store).acquire_lease("i", "b", timing, lambda holder, _: heard.append(holder))
    assert 0.2 <= time.monotonic() - started < 60
    assert set(heard) == {dead.holder}
    lease.release()


def test_whoever_reaped_the_holder_releases_for_it(store: CheckpointStore) -> None:
    store.acquire_lease("i", "a", FAST)._ended.set()
    another(store).release_lease_of("b")
    another(store).release_lease_of("a")
    another(store).acquire_lease("i", "c", NEVER).release()


def test_a_living_holder_is_displaced_when_patience_ends(store: CheckpointStore) -> None:
    old = store.acquire_lease("run-1", "old", FAST)
    draft = store.begin(1, "old")
    written = record_of(draft)
    store.commit(written)
    doomed = store.begin(2, "old")
    ready = record_of(doomed)
    newer = another(store)
    started = time.monotonic()
    lease = newer.acquire_lease("run-2", "new", replace(FAST, expiry_seconds=60.0, patience_seconds=0.2))
    assert time.monotonic() - started >= 0.2
    said = (
        f"attempt old of run-1 lost its lease on {store.directory}: attempt new of run-2 took over; this attempt stops saving, "
        "what it committed stays. If two runs are meant to train at the same time, give each a lineage of its own"
    )
    for use in (lambda: store.commit(ready), lambda: store.begin(3, "old"), lambda: store.retain(2, "old"), old.check):
        with pytest.raises(LeaseLostError) as caught:
            use()
        assert str(caught.value) == said
    assert (caught.value.exit_code, old.lost) == (ExitCode.STORAGE, True)
    assert newer.latest_good() == written
    newer.commit(record_of(newer.begin(2, "new")))
    newer.retain(2, "new")
    assert sorted(path.name for path in store.directory.glob("step-*")) == ["step-1.old", "step-2.new"]
    old.release()
    lease.check()
    lease.release()


def test_the_heartbeat_notices(store: CheckpointStore) -> None:
    old = store.acquire_lease("i", "old", FAST)
    lease = another(store).acquire_lease("i", "new", AT_ONCE)
    assert old._lost.wait(60)
    lease.release()


def test_a_fence_stops_a_commit_that_looked_at_its_lease_before(store: CheckpointStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last moment: the look at the lease is over, the record is not there yet, and then everything stands still."""
    old = store.acquire_lease("i", "old", FAST)
    ready = record_of(store.begin(1, "old"))
    look = old.check

    def look_and_sleep() -> None:
        look()
        monkeypatch.setattr(old, "check", lambda: None)
        another(store).acquire_lease("i", "new", AT_ONCE).release()

    monkeypatch.setattr(old, "check", look_and_sleep)
    with pytest.raises(LeaseLostError, match=r"step-1\.old .*was fenced by a newer attempt"):
        store.commit(ready)
    assert store.scan().records == ()
    old.release()


def test_a_holder_that_slept_before_it_fenced_fences_nothing(store: CheckpointStore) -> None:
    volume = open_volume(store.directory)
    slept = acquire(volume, "i", "old", FAST)
    lease = store.acquire_lease("i", "new", AT_ONCE)
    ready = record_of(store.begin(1, "new"))
    with pytest.raises(LeaseLostError, match="attempt new of i took over"):
        fence_drafts(volume, slept)
    store.commit(ready)
    lease.release()
    slept.release()


def test_a_committed_draft_is_not_fenced(store: CheckpointStore) -> None:
    lease = store.acquire_lease("i", "old", FAST)
    written = record_of(store.begin(1, "old"))
    store.commit(written)
    lease.release()
    newer = another(store)
    newer.acquire_lease("i", "new", NEVER).release()
    assert (newer.scan().records, newer.scan().fences) == ((written,), ())


def test_a_term_that_is_long_over_is_not_taken(store: CheckpointStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine slept between its look at the terms and its own term, and others came and went."""
    volume = open_volume(store.directory)
    store.acquire_lease("i", "a", FAST).release()
    create = type(volume).create
    slept = False

    def create_later(self: object, key: str, data: bytes) -> bool:
        nonlocal slept
        if not slept:
            slept = True
            for attempt in "bcd":
                another(store).acquire_lease("i", attempt, FAST).release()
        return create(self, key, data)  # type: ignore[arg-type]

    monkeypatch.setattr(type(volume), "create", create_later)
    lease = another(store).acquire_lease("i", "sleeper", FAST)
    assert lease.holder.term == 5
    lease.release()


def test_a_term_that_is_over_comes_back_to_nobody(store: CheckpointStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sleeper creates the term anew that its displaced holder had, who wakes up and asks."""
    volume = open_volume(store.directory)
    store.acquire_lease("i", "a", FAST).release()
    create = type(volume).create
    frozen: list[Lease] = []
    newest: list[Lease] = []

    def create_later(self: object, key: str, data: bytes) -> bool:
        monkeypatch.setattr(type(volume), "create", create)
        frozen.append(acquire(volume, "i", "frozen", replace(NEVER, beat_seconds=60.0)))
        newest.append(acquire(volume, "i", "newest", AT_ONCE))
        return create(self, key, data)  # type: ignore[arg-type]

    def meanwhile(holder: Holder, waited: float) -> None:
        assert holder == newest[0].holder
        with pytest.raises(LeaseLostError, match="attempt newest of i took over"):
            frozen[0].check()
        newest[0].release()

    monkeypatch.setattr(type(volume), "create", create_later)
    lease = acquire(volume, "i", "sleeper", FAST, meanwhile)
    assert lease.holder.term == 4
    lease.release()
    frozen[0].release()


def test_one_of_many_at_once(store: CheckpointStore) -> None:
    """All come at the same moment; each has the lease once, and nobody else has its term."""
    terms: list[int] = []

    def take(number: int) -> None:
        lease = another(store).acquire_lease("i", f"a{number}", NEVER)
        terms.append(lease.holder.term)
        lease.check()
        lease.release()

    threads = [threading.Thread(target=take, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(terms) == list(range(1, 9))


def test_a_damaged_term_is_somebody(store: CheckpointStore) -> None:
    store.acquire_lease("i", "a", FAST).release()
    (store.directory / "lease" / "1.json").write_bytes(b"")
    (store.directory / "lease" / "notes.txt").write_text("mine")
    another(store).acquire_lease("i", "b", NEVER).release()
    assert (store.directory / "lease" / "notes.txt").exists()


def test_waiting_can_be_given_up(store: CheckpointStore) -> None:
    lease = store.acquire_lease("i", "a", FAST)

    def give_up(holder: Holder, waited: float) -> None:
        if waited > 0.05:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        another(store).acquire_lease("i", "b", NEVER, give_up)
    lease.check()
    lease.release()


@pytest.fixture
def pair() -> Iterator[list[Writers]]:
    pair = [Writers(), Writers()]
    yield pair
    for writers in pair:
        writers.close()


def displace_at_random_moments(pair: list[Writers], directory: Path, rounds: int) -> None:
    """A holder stops for a while at any moment, or does not; a newer one takes over; then the old one goes on."""
    chance = random.Random(5)
    impatient = LeaseTiming(beat_seconds=0.004, expiry_seconds=0.04, patience_seconds=0.06, poll_seconds=0.002)
    pair[0].start(directory, "attempt-0", steps=1_000_000)
    for number in range(1, rounds + 1):
        old, new = pair
        old.wait_for(chance.choice((0, 1, 2)), chance.uniform(0, 0.03))
        if stops := chance.random() < 0.7:
            os.kill(old.pid, signal.SIGSTOP)
        new.start(directory, f"attempt-{number}", steps=1_000_000, timing=impatient)
        new.wait_for(chance.choice((0, 1, 2)), 0)
        if stops:
            os.kill(old.pid, signal.SIGCONT)
        old.finish()
        new.wait_for(1, 0)
        assert old.status == LOST
        assert old.committed < new.commits[0], "the newer one saw all that was committed, and nothing came after"
        pair.reverse()
    survivor = pair[0]
    survivor.kill()
    assert check(directory)[0] >= survivor.committed


def test_two_attempts_at_once(pair: list[Writers], memory_directory: Path) -> None:
    displace_at_random_moments(pair, memory_directory, 12)


@pytest.mark.slow
def test_two_attempts_at_once_many_times(pair: list[Writers], memory_directory: Path) -> None:
    displace_at_random_moments(pair, memory_directory, 150)
