"""How ranks end: every documented code from a real cause, with one sentence and no traceback as the message."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.processes import PATIENCE_SECONDS
from tests.trainer.training.conftest import Rank, Ranks, Spec
from tests.trainer.training.rank_process import SLOW_ENV

from trainwright_trainer.checkpoint import CheckpointStore
from trainwright_trainer.contract.layout import SPEC_ENV
from trainwright_trainer.rank.messages import RESUME_BEFORE_ENV, Act, At, Carry, Committed, Measured, Pause, PhaseChanged, Result
from trainwright_trainer.training.witness import WITNESS_ENV

LONG: dict[str, Any] = {"duration": {"steps": 100_000}}


def reason(rank: Rank) -> str:
    [event] = rank.events("rank_failed")
    assert "exception" not in event
    text: str = event["reason"]
    assert "\n" not in text
    return text


def in_training(rank: Rank) -> None:
    rank.wait_for(lambda message: isinstance(message, Measured) and message.values.get("trainwright_step", 0) >= 2)


def answers(rank: Rank, request: int) -> At:
    answer = rank.wait_for(lambda message: isinstance(message, At) and message.request == request)
    assert isinstance(answer, At)
    return answer


def test_changed_data(ranks: Ranks, spec: Spec, tmp_path: Path) -> None:
    ranks.finish(spec(tmp_path / "lineage", world=1))
    [rank] = ranks.finish(spec(tmp_path / "lineage", world=1, data={"source": "digits", "held_out": 0.3}), code=12)
    assert "restore the data" in reason(rank)


def test_required_checkpoint_is_missing(ranks: Ranks, spec: Spec, tmp_path: Path) -> None:
    checkpoints = {"directory": str(tmp_path / "lineage"), "resume": "required"}
    for rank in ranks.finish(spec(tmp_path, checkpoints=checkpoints), code=13):
        assert "no checkpoint that verifies" in reason(rank)


def test_a_run_whose_checkpoints_are_all_damaged_does_not_start_over(ranks: Ranks, spec: Spec, tmp_path: Path) -> None:
    directory = tmp_path / "lineage"
    ranks.finish(spec(directory, world=1))
    for model in directory.glob("step-*/model.safetensors"):
        model.write_bytes(b"")
    for _ in range(2):  # in later attempts neither, when nothing is left but what was set aside
        [rank] = ranks.finish(spec(directory, world=1), code=13)
        assert "damaged and set aside" in reason(rank)
        assert "move the directory away" in reason(rank)
    directory.rename(tmp_path / "given up")
    [rank] = ranks.finish(spec(directory, world=1))
    assert rank.events("run_started")[0]["step"] == 0


def test_resume_never_starts_anew(ranks: Ranks, spec: Spec, tmp_path: Path) -> None:
    directory = tmp_path / "lineage"
    ranks.finish(spec(directory, world=1))
    anew = spec(directory, world=1, checkpoints={"directory": str(directory), "resume": "never"}) | {"identity": "digits-2"}
    [rank] = ranks.finish(anew)
    assert rank.events("run_started")[0]["step"] == 0
    [rank] = ranks.finish(anew)  # as after a preemption: its own checkpoints count
    assert rank.events("run_started")[0]["step"] == rank.events("finished")[0]["step"] > 0


def test_random_numbers_at_another_size_are_those_of_no_other_place(ranks: Ranks, spec: Spec, tmp_path: Path) -> None:
    """Nothing is drawn by this model, so that the states saved are those that the attempts began with."""
    def states(directory: str, world: int, steps: int) -> dict[str, str]:
        ranks.finish(spec(tmp_path / directory, world=world, batch={"micro": 16 // world}, duration={"steps": steps}))
        record = CheckpointStore(tmp_path / directory).records()[0]
        return {file.name: file.model_dump_json() for file in record.files if file.name.startswith("rng-")}

    fresh = [states("one", 1, 2), states("two", 2, 2)]
    resumed = [states("two", 1, 4), states("two", 2, 6), states("one", 2, 4)]
    found = [state for part in [*fresh, *resumed] for state in part.values()]
    assert len(set(found)) == len(found) - 1, "the two rank 0 of fresh runs are alike, and nothing else"
    again = states("one", 2, 6)
    assert again == resumed[2], "at the same size they go on"


def test_finished_run_started_again_does_no_step(ranks: Ranks, spec: Spec, tmp_path: Path) -> None:
    ranks.finish(spec(tmp_path / "lineage", world=1))
    [rank] = ranks.finish(spec(tmp_path / "lineage", world=1))
    assert not rank.events("step")
    assert not rank.events("checkpoint_committed")


def test_an_attempt_that_begins_before_the_newest_commit(ranks: Ranks, spec: Spec, tmp_path: Path) -> None:
    """It trains the steps in between once more, and commits the same step beside the commit that it passed over."""
    run = spec(tmp_path / "lineage", world=1)
    ranks.finish(run)
    store = CheckpointStore(tmp_path / "lineage")
    newest, older, *_ = store.records()
    [rank] = ranks.finish(run, told={RESUME_BEFORE_ENV: str(newest.step)})
    [told] = rank.events("checkpoint_passed_over")
    assert (told["step"], told["level"]) == (newest.step, "warning")
    assert [event["step"] for event in rank.events("restored")] == [older.step]
    again, *others = store.records()
    assert (again.step, again.attempt) == (newest.step, rank.attempt)
    assert newest in others, "nothing is set aside"
    assert set(again.files) == set(newest.files), "the same bits"


def test_edited_model_on_the_same_directory(ranks: Ranks, spec: Spec, tmp_path: Path) -> None:
    ranks.finish(spec(tmp_path / "lineage", world=1))
    edited = spec(tmp_path / "lineage", world=1)
    edited["work"]["model"]["intermediate_size"] = 128
    [rank] = ranks.finish(edited, code=10)
    assert "another model" in reason(rank)


def test_storage_refuses(ranks: Ranks, spec: Spec, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    [rank] = ranks.finish(spec(tmp_path / "file" / "lineage", world=1), code=203)
    assert str(tmp_path / "file") in reason(rank)


def test_out_of_memory(ranks: Ranks, spec: Spec, tmp_path: Path) -> None:
    huge = spec(tmp_path / "lineage", world=1)
    huge["work"]["model"]["intermediate_size"] = 10**13
    [rank] = ranks.finish(huge, code=15)
    [event] = rank.events("rank_failed")
    assert "memory" in event["reason"]


def test_a_port_that_is_taken_is_no_lost_peer(ranks: Ranks, spec: Spec, tmp_path: Path) -> None:
    run = spec(tmp_path / "lineage", world=1)
    with socket.create_server(("127.0.0.1", run["world"]["rendezvous"]["port"])):
        [rank] = ranks.finish(run, code=200)
    assert "another process of this node listens there" in rank.events("rank_failed")[0]["reason"]


def test_an_interface_that_is_not_there_is_no_lost_peer(ranks: Ranks, spec: Spec, tmp_path: Path) -> None:
    [rank] = ranks.finish(spec(tmp_path / "lineage", world=1), code=200, told={"GLOO_SOCKET_IFNAME": "eth9"})
    reason = rank.events("rank_failed")[0]["reason"]
    assert "eth9" in reason
    assert "correct the interfaces of the node pool" in reason


def test_world_of_another_size(ranks: Ranks, spec: Spec, tmp_path: Path) -> None:
    declared = spec(tmp_path / "lineage", world=1)
    [rank] = ranks.start(declared, linked=True)
    path = rank.output.parent / "run.json"
    path.write_text(json.dumps(declared))
    assert rank.code() == 0
    declared["world"]["processes_per_node"] = 2
    lone = dict(os.environ, RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", LOCAL_WORLD_SIZE="1", GROUP_RANK="0")
    lone |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(declared["world"]["rendezvous"]["port"]), SPEC_ENV: str(path)}
    path.write_text(json.dumps(declared))
    ended = subprocess.run(
        [sys.executable, "-m", "trainwright_trainer.rank"], env=lone, capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    assert ended.returncode == 11
    assert "world.nodes x world.processes_per_node is 1 x 2 = 2" in ended.stdout
    assert "Traceback" not in ended.stdout + ended.stderr


def test_killed_peer(ranks: Ranks, spec: Spec, tmp_path: Path) -> None:
    lost, left = ranks.start(spec(tmp_path / "lineage", **LONG), linked=True)
    in_training(lost)
    assert lost.process.pid is not None
    os.kill(lost.process.pid, signal.SIGKILL)
    started = time.monotonic()
    assert left.code() == 202
    assert time.monotonic() - started < 30
    result = left.wait_for(lambda message: isinstance(message, Result))
    assert isinstance(result, Result)
    assert result.code == 202
    assert result.cause is not None
    assert result.cause.rank == 1


def test_supervisor_gone(ranks: Ranks, spec: Spec, tmp_path: Path) -> None:
    [rank] = ranks.start(spec(tmp_path / "lineage", world=1, **LONG), linked=True)
    in_training(rank)
    assert rank.link is not None
    rank.link.shutdown(2)
    assert rank.code() == 200


def test_asked_before_training_there_is_no_tick(ranks: Ranks, spec: Spec, tmp_path: Path) -> None:
    [rank] = ranks.start(spec(tmp_path / "lineage", world=1), linked=True)
    rank.say(Pause(request=7))
    answer = answers(rank, 7)
    if answer.tick is not None:  # the rank was faster than the request
        rank.say(Carry(request=7))
    assert rank.code() == 0
    phases = [message.phase for message in rank.messages if isinstance(message, PhaseChanged)]
    assert phases[:2] == ["starting", "restoring"]
    assert phases[-1] == "finished"
    assert isinstance(rank.messages[-1], Result)


def test_periodic_save_then_carry_then_stop(ranks: Ranks, spec: Spec, tmp_path: Path) -> None:
    directory = tmp_path / "lineage"
    running = ranks.start(spec(directory, checkpoints={"directory": str(directory)}, **LONG), linked=True)
    in_training(running[0])
    for request, action in ((1, "save"), (2, None), (3, "stop")):
        for rank in running:
            rank.say(Pause(request=request))
        ticks = [answers(rank, request).tick for rank in running]
        tick = max(tick for tick in ticks if tick is not None) + 1
        for rank in running:
            rank.say(Carry(request=request) if action is None else Act(request=request, action=action, tick=tick))
        if action == "save":
            for rank in running:
                rank.wait_for(lambda message: isinstance(message, Committed))
    assert [rank.code() for rank in running] == [210, 210]
    saved = sorted(message.step for message in running[1].messages if isinstance(message, Committed))
    assert len(saved) == 2
    assert [record.step for record in CheckpointStore(directory).records()] == saved[::-1]


def test_a_save_that_one_rank_cannot_write(ranks: Ranks, spec: Spec, tmp_path: Path) -> None:
    """Both ranks hear that it failed, and train on; the next save is whole."""
    run = spec(tmp_path / "lineage", engine="fsdp2", **LONG)
    run["work"] |= {"log_every_steps": 1000}
    # A save every few milliseconds: many of them fail before this test has heard of the first.
    run["work"]["checkpoints"] |= {"failed_saves": 1000}
    leader, other = ranks.start(run, linked=True, told={WITNESS_ENV: ""})  # whose file would be cut off too
    other.wait_for(lambda message: isinstance(message, Committed))
    assert other.process.pid is not None
    unlimited = resource.prlimit(other.process.pid, resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
    leader.wait_for(lambda message: isinstance(message, Measured) and message.values.get("trainwright_checkpoint_failures") == 1)
    resource.prlimit(other.process.pid, resource.RLIMIT_FSIZE, unlimited)
    failed = leader.events("checkpoint_failed")[0]
    assert "File too large" in failed["reason"]
    assert not other.events("checkpoint_failed"), "it is said once"
    for rank in (leader, other):
        rank.wait_for(lambda message: isinstance(message, Committed) and message.step > failed["step"])


def test_a_save_that_is_not_expected_to_fit_is_tried(ranks: Ranks, spec: Spec, tmp_path: Path) -> None:
    """What a save was estimated to take says little of what this one takes, and one that is not committed costs nothing."""
    directory = tmp_path / "lineage"
    short = spec(directory, world=1, checkpoints={"directory": str(directory)}, **LONG)
    short["lifecycle"] = {"grace_seconds": 30, "save_seconds": 60}
    [rank] = ranks.start(short, linked=True)
    in_training(rank)
    rank.say(Pause(request=1))
    tick = answers(rank, 1).tick
    assert tick is not None
    rank.say(Act(request=1, action="stop", tick=tick + 1))
    assert rank.code() == 210
    [record] = CheckpointStore(directory).records()
    assert record.step > 0


def test_stop_in_the_middle_of_evaluation(ranks: Ranks, spec: Spec, tmp_path: Path) -> None:
    directory = tmp_path / "lineage"
    settings: dict[str, Any] = {"duration": {"steps": 2}, "batch": {"micro": 1}, "evaluation": {}}
    settings["data"] = {"source": "digits", "held_out": 0.9}  # 800 batches of evaluation, for the request to arrive in
    run = spec(directory, **settings, checkpoints={"directory": str(directory)})
    running = ranks.start(run, linked=True, told={SLOW_ENV: "*:0.02"})
    for rank in running:
        rank.wait_for(lambda message: isinstance(message, PhaseChanged) and message.phase == "evaluating")
        rank.say(Pause(request=1))
    ticks = [answers(rank, 1).tick for rank in running]
    tick = max(tick for tick in ticks if tick is not None) + 1
    for rank in running:
        rank.say(Act(request=1, action="stop", tick=tick))
    assert [rank.code() for rank in running] == [210, 210]
    assert CheckpointStore(directory).records()[0].step == 2
    leader, _ = ranks.finish(spec(directory, **settings, checkpoints={"directory": str(directory)}))
    assert not leader.events("step")
    assert len(leader.events("evaluated")) == 1


@pytest.mark.parametrize(("world", "code"), [(1, 210), (2, 211)])
def test_sigterm_without_a_supervisor(ranks: Ranks, spec: Spec, tmp_path: Path, world: int, code: int) -> None:
    directory = tmp_path / "lineage"
    running = ranks.start(spec(directory, world=world, **LONG))
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not running[0].events("step"):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    for rank in running:
        rank.process.terminate()
    assert running[0].code() == code
    assert all(rank.code() in (code, 202) for rank in running[1:])  # the end of rank 0 may reach it before its own signal
    if world == 1:
        assert running[0].events("stopped")[0]["step"] == CheckpointStore(directory).records()[0].step
