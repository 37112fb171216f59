"""A run that recovers in place: attempts come and go, and no pod ends but the one that is lost."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import threading
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.processes import is_running, wait_until
from tests.trainer.supervisor.conftest import NewRun, training_work
from tests.trainer.supervisor.pods import PodProcess, Run, parent_of

from trainwright_trainer.checkpoint.ledger import Ledger
from trainwright_trainer.contract import ExitCode, RunSpec
from trainwright_trainer.contract.ledger import AttemptEnded, AttemptStarted

RETRIES_SPENT = ExitCode.RETRIES_SPENT
TRAINS, FINISHES = "finish:100000", "finish:30"
FIRST_TRAINS = f"{TRAINS};{FINISHES}"
PTRACE_SEIZE, PTRACE_DETACH = 0x4206, 17


def recovering(new_run: NewRun, nodes: int = 2, processes: int = 1, *, restarts: int = 3, wait: float = 900, **other: Any) -> Run:
    return new_run(nodes, processes, recovery={"restarts": restarts, "wait_seconds": wait}, **other)


def attempts(run: Run) -> list[str]:
    """In the order in which they began."""
    return list(dict.fromkeys(line["attempt"] for line in run.journal("started")))


def ends(run: Run) -> list[int]:
    directory = run.spec.state_directory
    assert directory is not None
    return [event.code for event in Ledger(directory).events() if isinstance(event, AttemptEnded)]


def wait_for_attempt(run: Run, number: int) -> dict[int, int]:
    """Process ids by rank, once all ranks of the nth attempt train."""

    def training() -> bool:
        return len(run.journal("training")) >= number * run.spec.world.size

    wait_until(training, f"attempt {number}", told=run.logs)
    assert len(attempts(run)) == number
    return {line["rank"]: line["pid"] for line in run.journal("started") if line["attempt"] == attempts(run)[-1]}


def all_stay(run: Run) -> None:
    assert [pod.process.poll() for pod in run.pods] == [None] * len(run.pods), run.logs()


def last_words(run: Run, index: int = 0) -> str:
    cause = run.pods[index].message().cause
    assert cause is not None
    return cause.message


@contextmanager
def ready(pods: Sequence[PodProcess]) -> Iterator[None]:
    """Each of them says so to whoever asks, over and over until the block ends, and once more then."""
    over = threading.Event()

    def answers() -> set[int]:
        found = set[int]()
        while not over.wait(0.05):
            found |= {pod.get("/readyz")[0] for pod in pods}
        return found | {pod.get("/readyz")[0] for pod in pods}

    with ThreadPoolExecutor(1) as thread:
        asked = thread.submit(answers)
        try:
            yield
        finally:
            over.set()
    assert asked.result() == {200}


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_killed_rank_costs_no_pod(new_run: NewRun, nodes: int) -> None:
    run = recovering(new_run, nodes, processes=2)
    run.plans = {"*": f"{TRAINS};{TRAINS};{FINISHES}"}
    run.start_all()
    first = wait_for_attempt(run, 1)
    with ready(run.pods):
        os.kill(first[1], signal.SIGKILL)
        second = wait_for_attempt(run, 2)
    all_stay(run)
    os.kill(second[0], signal.SIGKILL)
    assert run.wait() == [ExitCode.DONE] * nodes, run.logs()
    assert len(run.pods) == nodes
    assert len(attempts(run)) == 3
    assert [line["ghosts"] for line in run.journal("started")] == [[]] * (3 * 2 * nodes)
    assert ends(run) == [ExitCode.INTERNAL, ExitCode.INTERNAL, ExitCode.DONE]


def test_a_rank_that_says_why_it_fails(new_run: NewRun) -> None:
    run = recovering(new_run)
    run.plans = {"*": FIRST_TRAINS, "1": f"fail:{ExitCode.STORAGE}:5;{FINISHES}"}
    run.start_all()
    assert run.wait() == [ExitCode.DONE] * 2, run.logs()
    assert ends(run) == [ExitCode.STORAGE, ExitCode.DONE]
    [ended] = [event for event in run.pods[0].log() if event["event"] == "attempt_ended"]
    assert (ended["again"], ended["retries"], ended["reason"]) == (True, 1, "rank 1 fails as planned")


def test_a_rank_that_hangs(new_run: NewRun) -> None:
    run = recovering(new_run, watchdog={"warming_up_seconds": 2, "training_seconds": 2, "slowdown": 2})
    run.plans = {"*": FIRST_TRAINS, "1": f"hang:5;{FINISHES}"}
    run.start_all()
    assert run.wait() == [ExitCode.DONE] * 2, run.logs()
    assert ends(run) == [ExitCode.HANG, ExitCode.DONE]


def test_a_permanent_code_ends_every_pod_at_once(new_run: NewRun) -> None:
    run = recovering(new_run, 3)
    run.plans = {"*": TRAINS, "1": f"{TRAINS};fail:{ExitCode.DIVERGED}:5"}
    run.start_all()
    os.kill(wait_for_attempt(run, 1)[2], signal.SIGKILL)
    assert run.wait() == [ExitCode.PEER_LOST, ExitCode.DIVERGED, ExitCode.PEER_LOST], run.logs()
    assert "ended with 14: rank 1 fails as planned" in last_words(run, 2)
    assert ends(run) == [ExitCode.INTERNAL, ExitCode.DIVERGED]


def test_a_permanent_code_that_is_said_after_another_one_wins(new_run: NewRun) -> None:
    """Rank 0 may only feel that rank 1 diverged."""
    run = recovering(new_run)
    run.plans = {"0": f"fail:{ExitCode.INTERNAL}:5", "1": f"fail:{ExitCode.DIVERGED}:20"}
    run.start_all()
    assert run.wait() == [ExitCode.INTERNAL, ExitCode.DIVERGED], run.logs()
    assert len(attempts(run)) == 1


def test_retries_that_are_spent_end_every_pod_with_a_permanent_code(new_run: NewRun) -> None:
    run = recovering(new_run, restarts=2)
    run.plans = {"*": TRAINS, "1": f"fail:{ExitCode.INTERNAL}:5"}
    run.start_all()
    assert run.wait() == [RETRIES_SPENT] * 2, run.logs()
    said = "3 attempts failed, and the run may restart 2 times; the last one: rank 1 fails as planned"
    assert [last_words(run, index) for index in (0, 1)] == [said] * 2
    assert ends(run) == [ExitCode.INTERNAL, ExitCode.INTERNAL, RETRIES_SPENT]


def test_a_new_node_0_goes_on_counting(new_run: NewRun) -> None:
    run = recovering(new_run, restarts=1)
    run.plans = {"*": TRAINS}
    run.start_all()
    os.kill(wait_for_attempt(run, 1)[1], signal.SIGKILL)
    wait_for_attempt(run, 2)
    run.lose(run.pods[0])
    run.start(0, reuse=True)
    os.kill(wait_for_attempt(run, 3)[1], signal.SIGKILL)
    assert [pod.wait() for pod in run.pods[1:]] == [RETRIES_SPENT] * 2, run.logs()


def test_attempts_without_progress_end(new_run: NewRun) -> None:
    run = recovering(new_run, restarts=100, attempts_without_progress=3)
    run.plans = {"*": TRAINS, "1": f"fail:{ExitCode.INTERNAL}:5"}
    run.start_all()
    assert run.wait() == [ExitCode.NO_PROGRESS] * 2, run.logs()
    assert len(attempts(run)) == 3


@pytest.mark.parametrize("node", [0, 2])
def test_a_lost_pod_costs_only_itself(new_run: NewRun, node: int) -> None:
    run = recovering(new_run, 3)
    run.plans = {"*": FIRST_TRAINS}
    run.start_all()
    pids = wait_for_attempt(run, 1)
    lost, others = run.pods[node], [pod for pod in run.pods if pod.node != node]
    with ready(others):
        run.lose(lost)
        for pod in others:
            pod.wait_for_event("joins_another_attempt")
        wait_until(lambda: not any(is_running(pid) for pid in pids.values()), "the ranks are gone")
    assert [pod.process.poll() for pod in others] == [None, None]
    new = run.start(node, reuse=True)
    assert [pod.wait() for pod in (*others, new)] == [ExitCode.DONE] * 3, run.logs()
    assert len(attempts(run)) == 2


def test_a_name_server_that_still_gives_the_old_address_of_node_0(new_run: NewRun) -> None:
    """Where somebody else is by now."""
    run = recovering(new_run)
    content = run.spec.model_dump(mode="json", exclude_none=True)
    content["world"]["rendezvous"]["host"] = "node-0.fake"
    run.spec, names = RunSpec.model_validate(content), run.directory / "names.json"
    old = f"{run.address_base}1"
    names.write_text(json.dumps({"node-0.fake": old}))
    run.environment = {"FAKE_NAMES": str(names)}
    run.plans = {"*": FIRST_TRAINS}
    run.start_all()
    wait_for_attempt(run, 1)
    run.lose(run.pods[0])
    run.pods[0].wait()
    with socket.create_server((old, run.spec.world.control_port or 0)) as stranger:
        new = run.start(0)
        assert new.address != old
        stranger.accept()[0].close()
        run.pods[1].wait_for_event("not_node_0")
    names.with_suffix(".new").write_text(json.dumps({"node-0.fake": new.address}))
    names.with_suffix(".new").rename(names)  # it is looked up all the time
    assert [run.pods[1].wait(), new.wait()] == [ExitCode.DONE] * 2, run.logs()


def test_a_pod_that_does_not_come_back_is_not_awaited_for_ever(new_run: NewRun) -> None:
    run = recovering(new_run, 3, wait=6)
    run.plans = {"*": TRAINS}
    run.start_all()
    wait_for_attempt(run, 1)
    run.lose(run.pods[1])
    assert [run.pods[node].wait() for node in (0, 2)] == [ExitCode.PEER_LOST] * 2, run.logs()
    assert "1 of 3 nodes did not come back within 6 s: 1; the attempt before ended because node 1 (" in last_words(run, 2)


def test_node_0_that_does_not_come_back_is_not_awaited_for_ever(new_run: NewRun) -> None:
    run = recovering(new_run, wait=1)
    run.plans = {"*": TRAINS}
    run.start_all()
    wait_for_attempt(run, 1)
    run.lose(run.pods[0])
    assert run.pods[1].wait() == ExitCode.PEER_LOST, run.logs()
    assert "node 0 did not come within 1 s" in last_words(run, 1)


def break_volume(path: Path) -> None:
    """Nothing there can be opened until the link is removed and the original is back."""
    path.rename(path.with_name("away"))
    path.symlink_to(path.name)


@pytest.mark.parametrize(("broken", "waiting"), [("state", [0, 1]), ("state/attempts.jsonl", [0])])
def test_a_volume_that_is_gone_between_two_attempts_costs_no_pod(new_run: NewRun, broken: str, waiting: list[int]) -> None:
    """Wherever it shows: in the marker, which every pod reads, or in the ledger, which node 0 writes."""
    run = recovering(new_run)
    run.plans = {"*": FIRST_TRAINS}
    run.start_all()
    pids, path = wait_for_attempt(run, 1), run.directory / broken
    break_volume(path)
    os.kill(pids[1], signal.SIGKILL)
    for node in waiting:
        run.pods[node].wait_for_event("volume_not_usable")
    path.unlink()
    path.with_name("away").rename(path)
    assert run.wait() == [ExitCode.DONE] * 2, run.logs()
    assert len(attempts(run)) == 2


def test_a_volume_that_does_not_come_back_is_not_awaited_for_ever(new_run: NewRun) -> None:
    run = recovering(new_run, wait=1)
    run.plans = {"*": TRAINS}
    run.start_all()
    pids = wait_for_attempt(run, 1)
    break_volume(run.directory / "state")
    os.kill(pids[1], signal.SIGKILL)
    assert run.wait() == [ExitCode.STORAGE] * 2, run.logs()


def test_new_pods_wait_as_long_as_the_others(new_run: NewRun) -> None:
    """Also those that find node 0 gone; peer_wait is 60 s here."""
    run = recovering(new_run, 3, wait=77)
    run.plans = {"*": FIRST_TRAINS}
    run.start_all()
    assert run.pods[2].wait_for_event("waiting_for_node_0")["seconds"] == 60
    wait_for_attempt(run, 1)
    for node in (0, 2):
        run.lose(run.pods[node])
    last = run.start(2, reuse=True)
    assert last.wait_for_event("waiting_for_node_0")["seconds"] == 77
    new = run.start(0, reuse=True)
    assert [pod.wait() for pod in (run.pods[1], new, last)] == [ExitCode.DONE] * 3, run.logs()
    assert {event["seconds"] for event in new.log() if event["event"] == "waiting_for_peers"} == {77}


@pytest.mark.parametrize("node", [0, 1])
def test_a_pod_that_is_told_to_end_leaves_alone(new_run: NewRun, node: int) -> None:
    run = recovering(new_run, 3)
    run.plans = {"*": FIRST_TRAINS}
    run.start_all()
    wait_for_attempt(run, 1)
    told = run.pods[node]
    told.process.send_signal(signal.SIGTERM)
    assert told.wait() == ExitCode.PREEMPTED_SAVED, run.logs()
    wait_until(lambda: len(run.journal("stop")) == 3, "the ranks of the others stop, too", told=run.logs)
    assert len({line["tick"] for line in run.journal("stop")}) == 1
    others = [pod for pod in run.pods if pod.node != node]
    for pod in others:
        pod.wait_for_event("joins_another_attempt")
    assert [pod.process.poll() for pod in others] == [None, None]
    new = run.start(node, reuse=True)
    assert [pod.wait() for pod in (*others, new)] == [ExitCode.DONE] * 3, run.logs()
    assert ends(run) == [ExitCode.PREEMPTED_SAVED, ExitCode.DONE]


def test_all_pods_are_told_to_end_one_after_the_other(new_run: NewRun) -> None:
    """A pod cannot know whether the run is deleted or its node drained. One that waits has saved what there was."""
    run = recovering(new_run, 3)
    run.plans = {"*": TRAINS}
    run.start_all()
    wait_for_attempt(run, 1)
    for node in (1, 2, 0):
        run.pods[node].process.send_signal(signal.SIGTERM)
        assert run.pods[node].wait() == ExitCode.PREEMPTED_SAVED, run.logs()


def test_a_pod_that_is_told_to_end_before_it_joins_again_has_saved(new_run: NewRun) -> None:
    """While it clears away what the attempt left, which it has saved."""
    run = recovering(new_run)
    run.plans = {"0": TRAINS, "1": "leak:100000"}
    run.start_all()
    wait_for_attempt(run, 1)
    orphan = run.journal("orphans")[0]["pids"][1]
    seize(orphan)
    run.pods[0].process.send_signal(signal.SIGTERM)
    assert run.pods[0].wait() == ExitCode.PREEMPTED_SAVED, run.logs()
    wait_until(lambda: not is_running(orphan), "what it left is killed, and cannot be reaped", told=run.logs)
    run.pods[1].process.send_signal(signal.SIGTERM)
    os.waitpid(orphan, 0)
    assert run.pods[1].wait() == ExitCode.PREEMPTED_SAVED, run.logs()


def seize(pid: int) -> None:
    """Become the tracer of a process, whose supervisor cannot reap it before we have."""
    trace = ctypes.CDLL(None, use_errno=True).ptrace
    trace.argtypes = [ctypes.c_long] * 4
    if trace(PTRACE_SEIZE, pid, 0, 0):
        pytest.skip(f"this machine lets nobody trace: {os.strerror(ctypes.get_errno())}")


@pytest.mark.parametrize("who", ["rank", "orphan"])
def test_a_process_that_outlives_sigkill_ends_its_pod(new_run: NewRun, who: str) -> None:
    """Traced, a zombie is its tracer's: the supervisor cannot reap it, as little as a process in uninterruptible sleep."""
    run = recovering(new_run)
    run.plans = {"*": FIRST_TRAINS, "1": f"leak:100000;{FINISHES}"}
    run.start_all()
    pids = wait_for_attempt(run, 1)
    left = {"rank": pids[1], "orphan": run.journal("orphans")[0]["pids"][1]}[who]
    seize(left)
    os.kill(pids[0], signal.SIGKILL)
    assert run.pods[1].wait() == ExitCode.NODE_UNHEALTHY, run.logs()
    named = {"rank": f"rank 1 (process {left})", "orphan": f"process {left}"}[who]
    assert last_words(run, 1).startswith(f"{named} of node 1 (")
    assert run.pods[0].process.poll() is None
    os.waitpid(left, 0)
    run.start(1, reuse=True)
    assert [pod.wait() for pod in (run.pods[0], run.pods[2])] == [ExitCode.DONE] * 2, run.logs()


@pytest.mark.parametrize("node", [0, 1])
def test_a_node_that_fails_its_preflight_is_left(new_run: NewRun, node: int) -> None:
    """Another attempt there would find the same."""
    run, other = recovering(new_run), 1 - node
    run.plans = {"*": FIRST_TRAINS, str(node): f"fail:{ExitCode.NODE_UNHEALTHY}:1;{FINISHES}"}
    run.start_all()
    assert run.pods[node].wait() == ExitCode.NODE_UNHEALTHY, run.logs()
    run.pods[other].wait_for_event("joins_another_attempt")
    event = run.pods[0].wait_for_event("node_unhealthy")
    message = run.pods[node].message()
    assert (message.node_index, last_words(run, node)) == (node, f"rank {node} fails as planned")
    assert (event["peer"], event["host"], event["reason"]) == (node, message.host, f"rank {node} fails as planned")
    if node != 0:  # else whoever would show it has ended
        assert f"\ntrainwright_unhealthy_node {node}.0\n" in run.pods[0].get("/metrics")[1]
    new = run.start(node, reuse=True)
    assert [run.pods[other].wait(), new.wait()] == [ExitCode.DONE] * 2, run.logs()
    assert ends(run) == [ExitCode.NODE_UNHEALTHY, ExitCode.DONE]


@pytest.mark.slow
def test_a_preflight_names_the_node_where_its_pod_says_why_it_ended(new_run: NewRun, tmp_path: Path) -> None:
    preflight = {"when": "always", "min_tflops": 1e9}
    run = recovering(new_run, 1, work=training_work(tmp_path / "state"), preflight=preflight)
    run.rank = None
    [pod] = run.start_all()
    assert pod.wait() == ExitCode.NODE_UNHEALTHY, run.logs()
    assert last_words(run).startswith(f"node 0 ({pod.message().host}) is not fit to train: ")


def test_what_ranks_leave_is_gone_before_the_next_attempt(new_run: NewRun) -> None:
    prefix = Path("/dev/shm") / f"trainwright-test-{uuid.uuid4().hex}"
    run = recovering(new_run)
    run.environment = {"FAKE_SEGMENT": str(prefix)}
    run.plans = {"*": f"segment:5;{FINISHES}"}
    try:
        run.start_all()
        assert run.wait() == [ExitCode.DONE] * 2, run.logs()
        second = [line for line in run.journal("started") if line["attempt"] == attempts(run)[1]]
        assert (len(run.journal("segment")), [line["segments"] for line in second]) == (2, [[], []])
    finally:
        for rank in (0, 1):
            prefix.with_name(f"{prefix.name}-{rank}").unlink(missing_ok=True)


def test_orphans_are_gone_before_the_next_attempt(new_run: NewRun) -> None:
    run = recovering(new_run, 1)
    run.plans = {"*": f"leak:100000;{TRAINS};{FINISHES}"}
    run.start_all()
    os.kill(wait_for_attempt(run, 1)[0], signal.SIGKILL)
    wait_for_attempt(run, 2)
    [line] = run.journal("orphans")
    assert not any(Path(f"/proc/{pid}").exists() for pid in line["pids"])


def until(seen: Path, rank: int) -> str:
    """A rank that is killed before it has left its mark would take the next attempt for its first."""
    return f"until test -e {seen}-{rank}; do sleep 0.05; done"


def test_a_script_is_started_again(new_run: NewRun, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    fails = f"test $RANK = 1 && {{ {until(seen, 0)}; exit 3; }}"
    command = ["sh", "-c", f"test -e {seen}-$RANK && exit 0; touch {seen}-$RANK; {fails}; sleep 600"]
    work = {"kind": "script", "command": command, "state_directory": str(tmp_path / "state")}
    run = recovering(new_run, work=work)
    run.start_all()
    assert run.wait() == [ExitCode.DONE] * 2, run.logs()
    started = [event for event in Ledger(tmp_path / "state").events() if isinstance(event, AttemptStarted)]
    assert (len(started), ends(run)) == (2, [ExitCode.USER_FAILURE, ExitCode.DONE])


def test_a_script_that_is_done_while_the_attempt_ends_takes_part_in_the_next(new_run: NewRun, tmp_path: Path) -> None:
    """It has two seconds after the failure of rank 1. Rank 2 uses them up, so that the verdict is not there before."""
    seen = tmp_path / "seen"
    fails = f"{until(seen, 0)}; {until(seen, 2)}; exit 3"
    first = f"case $RANK in 0) until test -e {tmp_path}/go; do sleep 0.05; done;; 1) {fails};; 2) sleep 600;; esac"
    command = ["sh", "-c", f"test -e {seen}-$RANK && exit 0; touch {seen}-$RANK; {first}"]
    run = recovering(new_run, 3, work={"kind": "script", "command": command, "state_directory": str(tmp_path / "state")})
    run.start_all()
    run.pods[0].wait_for_event("peer_failed")
    (tmp_path / "go").touch()
    assert run.pods[0].wait() == ExitCode.DONE, run.logs()
    assert run.wait() == [ExitCode.DONE] * 3, run.logs()
    assert ends(run) == [ExitCode.USER_FAILURE, ExitCode.DONE]


@pytest.mark.slow
def test_ranks_of_torch_are_forked_from_what_has_their_libraries_imported(new_run: NewRun, tmp_path: Path) -> None:
    work = training_work(tmp_path / "state", every_steps=5) | {"duration": {"steps": 1_000_000}}
    run = recovering(new_run, 1, 2, work=work)
    run.rank = None
    [pod] = run.start_all()
    for name in ("template_ready", "checkpoint_committed"):
        pod.wait_for_event(name)
    os.kill(pod.wait_for_event("ranks_started")["pids"][0], signal.SIGKILL)

    def trains_again() -> bool:
        """A commit takes both ranks; before its first step, one that is told to end has nothing to save."""
        said = [event["event"] for event in pod.log()]
        return said.count("run_started") == 2 and "checkpoint_committed" in said[len(said) - said[::-1].index("run_started"):]

    wait_until(trains_again, "it trains", told=run.logs)
    [_, forked] = [event["pids"] for event in pod.log() if event["event"] == "ranks_started"]
    for pid in forked:
        assert b"trainwright_trainer.rank.template" in Path(f"/proc/{pid}/cmdline").read_bytes()
        assert (parent_of(pid), os.getpgid(pid)) == (pod.process.pid, pid)
    assert [event["step"] for event in pod.log() if event["event"] == "restored"] != []
    pod.process.send_signal(signal.SIGTERM)
    assert pod.wait() == ExitCode.PREEMPTED_SAVED, run.logs()
