"""What a TensorFlow run promises, shown on whole runs of real workers."""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.engines.halting import first_called_slow, mostly_stopped
from tests.engines.manifest_data import write_images
from tests.engines.ranks import Rank
from tests.engines.tensorflow.conftest import RESNET, VIT, Spec, Workers
from tests.processes import wait_until

from trainwright_trainer.checkpoint import CheckpointStore, read_complete
from trainwright_trainer.checkpoint.array_file import decode
from trainwright_trainer.rank.messages import Ask, Measured, Pace

STEPS = 200
HARD: dict[str, Any] = {
    "model": {**VIT, "dropout": 0.1}, "batch": {"micro": 8, "accumulation": 2}, "precision": "bf16", "clip_norm": 0.5,
    "duration": {"steps": STEPS}, "log_every_steps": 20,
}
"""Settings that a resume could get wrong, with time to interrupt."""
ALONE: dict[str, Any] = {"batch": {"micro": 32}, "evaluation": {}}
"""What one worker needs, to take the batches of two."""
pytestmark = pytest.mark.slow


def files(directory: Path) -> set[Any]:
    """Names, sizes and digests of the newest checkpoint's files: all bits of model and optimizer."""
    return set(CheckpointStore(directory).records()[0].files)


def committed(directory: Path) -> int:
    return max((record.step for record in CheckpointStore(directory).records()), default=0)


def has_committed(directory: Path, step: int) -> bool:
    return committed(directory) >= step


def losses(rank: Rank) -> list[float]:
    return [event["loss"] for event in rank.events("step")]


@pytest.fixture(scope="module")
def uninterrupted(module_ranks: Workers, spec: Spec, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("uninterrupted") / "lineage"
    first, second = module_ranks.finish(spec(directory, **HARD))
    assert losses(first)[-1] < 0.7 * losses(first)[0]
    assert not second.events("step")
    [score] = first.events("evaluated")
    assert score["accuracy"] > 0.7
    complete = read_complete(directory)
    assert complete is not None
    assert (complete.identity, complete.step) == ("digits-1", STEPS)
    return directory


def test_a_resumed_run_has_the_bits_of_an_uninterrupted_one(
    ranks: Workers, spec: Spec, uninterrupted: Path, tmp_path: Path
) -> None:
    """Only the second worker's pod is told to end; nothing links the supervisors, so the workers agree by themselves."""
    started = ranks.start(spec(tmp_path / "c", **HARD))
    started[0].wait_for(lambda message: isinstance(message, Measured) and message.values.get("trainwright_step", 0) >= 20)
    started[1].say(Ask(action="stop"))
    assert [rank.code() for rank in started] == [210, 210], "\n".join(rank.text for rank in started)
    [end] = started[0].events("stopped")
    assert 20 <= end["committed_step"] == end["step"] < STEPS
    first, _ = ranks.finish(spec(tmp_path / "c", **HARD))
    assert [event["step"] for event in first.events("restored")] == [end["step"]]
    assert files(tmp_path / "c") == files(uninterrupted)


@pytest.mark.nightly
def test_three_kills_lose_nothing_that_was_committed(ranks: Workers, spec: Spec, uninterrupted: Path, tmp_path: Path) -> None:
    directory, dice = tmp_path / "c", random.Random(2)
    document = spec(directory, **HARD)
    document["work"]["checkpoints"]["every_steps"] = 5
    for victim in (1, 0, 1):
        enough = committed(directory) + dice.randrange(5, 20)
        started = ranks.start(document)
        wait_until(partial(has_committed, directory, enough), "commits")
        started[victim].kill()
        survivor = started[1 - victim]
        assert survivor.code() == 202, survivor.text
        assert "another worker is gone" in survivor.cause()
        at_least = committed(directory)
        CheckpointStore(directory).release_lease_of(survivor.attempt)  # as the victim's supervisor does, which knows it is dead
    first, _ = ranks.finish(document)
    assert [event["step"] for event in first.events("restored")] == [at_least]
    assert files(directory) == files(uninterrupted)


@dataclass(frozen=True)
class Finished:
    """A run that was not disturbed, and its first worker."""

    directory: Path
    first: Rank


@pytest.fixture(scope="module")
def two_workers(module_ranks: Workers, spec: Spec, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    directory = tmp_path_factory.mktemp("two-workers") / "lineage"
    first, _ = module_ranks.finish(spec(directory, batch={"micro": 8, "accumulation": 2}, evaluation={}))
    return Finished(directory, first)


def test_two_workers_learn_what_one_does(ranks: Workers, spec: Spec, two_workers: Finished, tmp_path: Path) -> None:
    """The same global batches, so the same losses but for the order of sums; two micro batches are as good as one."""
    [alone] = ranks.finish(spec(tmp_path / "one", world=1, **ALONE))
    assert_like(alone, two_workers.first, steps=range(1, 13), rtol=2e-4)


def test_the_last_save_comes_before_the_last_evaluation(two_workers: Finished) -> None:
    """Which may fail, and decides nothing that is saved."""
    said = [line for line in two_workers.first.text.splitlines() if '"checkpoint_committed"' in line or '"evaluated"' in line]
    assert ['"evaluated"' in line for line in said] == [False, False, False, True]


def test_one_worker_goes_on_where_two_stopped(ranks: Workers, spec: Spec, two_workers: Finished, tmp_path: Path) -> None:
    directory = tmp_path / "c"
    shutil.copytree(two_workers.directory, directory)
    store = CheckpointStore(directory)
    for record in store.records():
        if record.step > 4:
            store.quarantine(record, [])
    [alone] = ranks.finish(spec(directory, world=1, **ALONE))
    [restored] = alone.events("restored")
    assert (restored["step"], restored["from_world_size"]) == (4, 2)
    assert_like(alone, two_workers.first, steps=range(5, 13), rtol=1e-3)
    ended, other = store.records()[0], CheckpointStore(two_workers.directory).records()[0]
    assert (ended.step, ended.samples_consumed, ended.world_size) == (12, other.samples_consumed, 1)


def assert_like(alone: Rank, first: Rank, *, steps: range, rtol: float) -> None:
    """Losses and norms of these steps, each over the samples of its step, and the evaluation at the end."""
    expected = [event for event in first.events("step") if event["step"] in steps]
    found = alone.events("step")
    assert [event["step"] for event in found] == [event["step"] for event in expected] == list(steps)
    for name, tolerance in (("loss", rtol), ("grad_norm", 10 * rtol)):
        np.testing.assert_allclose([event[name] for event in found], [event[name] for event in expected], rtol=tolerance)
    [[ours], [theirs]] = alone.events("evaluated"), first.events("evaluated")
    assert ours["items"] == theirs["items"] == 359
    assert ours["loss"] == pytest.approx(theirs["loss"], rel=rtol)


@pytest.mark.nightly
def test_two_replicas_on_each_worker_learn_what_one_does(ranks: Workers, spec: Spec, tmp_path: Path) -> None:
    """Images in folders, cropped at random by sample: four replicas see the same ones as one does."""
    write_images(tmp_path / "images", classes=4)
    work: dict[str, Any] = {
        "model": {**VIT, "num_channels": 3, "num_labels": 4}, "duration": {"steps": 4}, "evaluation": {},
        "data": {"source": "image-folder", "path": str(tmp_path / "images"), "image_size": 8, "classes": 4},
    }
    several = spec(tmp_path / "four", **work, batch={"micro": 2, "accumulation": 2})
    several["world"]["replicas_per_process"] = 2
    several["lifecycle"]["preflight"] = {"when": "always"}
    first, _ = ranks.finish(several)
    [alone] = ranks.finish(spec(tmp_path / "one", world=1, **work, batch={"micro": 16}))
    np.testing.assert_allclose(losses(first), losses(alone), rtol=2e-4)
    norms = [[event["grad_norm"] for event in rank.events("step")] for rank in (first, alone)]
    np.testing.assert_allclose(norms[0], norms[1], rtol=2e-3)
    [[ours], [theirs]] = first.events("evaluated"), alone.events("evaluated")
    assert ours["items"] == theirs["items"] == 24
    assert ours["loss"] == pytest.approx(theirs["loss"], rel=2e-4)
    [checked] = first.events("preflight")
    assert min(checked["tflops"], checked["storage_seconds"], checked["bus_bytes_per_second"]) > 0
    assert checked["memory_bytes_per_second"] > 1e8
    assert 0 < checked["share_of_median"] < 2  # of two nodes the faster one is above their mean


def test_held_out_images_that_cannot_be_read_cost_no_training(ranks: Workers, spec: Spec, tmp_path: Path) -> None:
    write_images(tmp_path / "images", classes=4)
    (tmp_path / "images/val/n00000002/3.jpeg").write_bytes(b"cut off")
    work: dict[str, Any] = {
        "model": {**VIT, "num_channels": 3, "num_labels": 4}, "duration": {"steps": 2}, "evaluation": {"every_steps": 1},
        "skip_unreadable": 0,
        "data": {"source": "image-folder", "path": str(tmp_path / "images"), "image_size": 8, "classes": 4},
    }
    [alone] = ranks.finish(spec(tmp_path / "c", world=1, **work))
    assert [event["items"] for event in alone.events("evaluated")] == [23, 23]
    [left_out] = alone.events("held_out_sample_left_out")
    assert "3.jpeg is not a readable image" in left_out["reason"]


@pytest.mark.nightly
def test_a_resnet_learns_by_sgd(ranks: Workers, spec: Spec, tmp_path: Path) -> None:
    work = {
        "model": RESNET, "optimizer": {"kind": "sgd", "nesterov": True, "weight_decay": 1e-4}, "precision": "bf16",
        "learning_rate": {"peak": 0.05, "schedule": "constant"}, "duration": {"steps": 40}, "evaluation": {"every_steps": 20},
    }
    first, _ = ranks.finish(spec(tmp_path / "c", **work))
    assert losses(first)[-1] < 0.6 * losses(first)[0]
    assert [event["step"] for event in first.events("evaluated")] == [20, 40]
    assert first.events("evaluated")[1]["items"] == 359
    [model] = (tmp_path / "c").glob("step-40.*/model.safetensors")
    assert any(np.abs(array).max() > 0 for name, array in decode(model.read_bytes()).items() if name.endswith("moving_mean"))
    measured = {name for message in first.messages if isinstance(message, Measured) for name in message.values}
    assert {"trainwright_loss", "trainwright_gradient_norm", "trainwright_evaluation_accuracy"} <= measured


def test_a_loss_that_is_not_finite_ends_the_run(ranks: Workers, spec: Spec, tmp_path: Path) -> None:
    work = {"learning_rate": {"peak": 1e15, "schedule": "constant"}, "optimizer": {"kind": "sgd"}, "clip_norm": None}
    first, _ = ranks.finish(spec(tmp_path / "c", **work), code=14)
    assert "is not finite" in first.cause()
    assert committed(tmp_path / "c") == 0


def test_another_model_is_refused(ranks: Workers, spec: Spec, tmp_path: Path) -> None:
    ranks.finish(spec(tmp_path / "c", world=1, duration={"steps": 1}))
    [rank] = ranks.finish(spec(tmp_path / "c", world=1, model={**VIT, "intermediate_size": 48}), code=10)
    assert rank.cause().startswith("the checkpoint holds another model: vit/layer_0/intermediate/bias is (64,) there and (48,)")
    [rank] = ranks.finish(spec(tmp_path / "c", world=1, data={"source": "digits", "held_out": 0.3}), code=12)
    assert rank.cause().startswith("the data is not what step 1 was trained on")


def test_workers_that_never_come(ranks: Workers, spec: Spec, tmp_path: Path) -> None:
    document = spec(tmp_path / "c")
    document["lifecycle"]["peer_wait_seconds"] = 5
    first, second = ranks.start(document, {1: {"RANK": "0"}})
    assert second.code() == 11
    assert second.cause() == "RANK is 0, and by TF_CONFIG this is node 1"
    assert first.code() == 205
    assert first.cause().startswith("not all workers came within 5 s: nothing was heard of 127.0.0.1:")


def test_more_replicas_than_this_machine_has(ranks: Workers, spec: Spec, tmp_path: Path) -> None:
    document = spec(tmp_path / "c", world=1)
    document["world"]["device"], document["world"]["replicas_per_process"] = "cuda", 8
    [rank] = ranks.finish(document, code=11)
    assert rank.cause().startswith("world.replicas_per_process is 8, and TensorFlow finds 0 GPUs in this pod")


@pytest.mark.nightly
def test_a_rank_that_is_stopped_most_of_the_time_is_told_from_one_that_waits(ranks: Workers, spec: Spec, tmp_path: Path) -> None:
    started = ranks.start(spec(tmp_path / "c", **HARD))
    _, stopped = started
    every = 20
    stopped.wait_for(lambda message: isinstance(message, Pace) and message.step >= every)
    with mostly_stopped(stopped.process.pid):
        assert first_called_slow(started, every) == (1,)
