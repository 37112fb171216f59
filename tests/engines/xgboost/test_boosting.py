"""What a boosting run promises, shown on whole runs of real workers."""

from __future__ import annotations

import random
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xgboost
from tests.engines.halting import first_called_slow, mostly_stopped
from tests.engines.ranks import Rank, Ranks
from tests.engines.xgboost.conftest import COLUMNS, Spec, rows, write_csv
from tests.processes import wait_until

from trainwright_trainer.boosting.event_loop import is_event_loop
from trainwright_trainer.checkpoint import CheckpointStore, read_complete
from trainwright_trainer.commands.local import free_port
from trainwright_trainer.rank.messages import Act, At, Committed, Measured, Pace, Pause

LONG = 3000
"""Rounds that leave time to interrupt, about 12 s of it on an idle machine. No test waits for the last of them."""
SOME = 50
"""Rounds that a run which was interrupted still takes."""


def files(directory: Path) -> set[Any]:
    """Names, sizes and digests of the newest checkpoint's files: the bits of the model."""
    return set(CheckpointStore(directory).records()[0].files)


def matrix_of(seeds: range) -> xgboost.DMatrix:
    """What the files of ``table`` hold that were written with these seeds."""
    read = [rows(300, seed) for seed in seeds]
    features, labels = (np.concatenate(parts) for parts in zip(*read, strict=True))
    return xgboost.DMatrix(features, label=labels, feature_names=list(COLUMNS))


def scores(rank: Rank, metric: str) -> list[float]:
    return [event[metric] for event in rank.events("evaluated")]


def test_a_run_learns_and_leaves_its_model(ranks: Ranks, spec: Spec, tmp_path: Path) -> None:
    first, second = ranks.finish(spec(tmp_path / "c"))
    assert [event["step"] for event in first.events("evaluated")] == [5, 10, 15, 20, 25, 30, 35, 40]
    assert scores(first, "logloss")[-1] < 0.75 * scores(first, "logloss")[0]
    assert scores(first, "auc")[-1] > 0.9
    assert not second.events("step")
    model = (tmp_path / "c" / "model.ubj").read_bytes()
    [file] = files(tmp_path / "c")
    assert file.size == len(model)
    booster = xgboost.Booster(model_file=bytearray(model))
    assert (booster.num_boosted_rounds(), booster.feature_names) == (40, list(COLUMNS))
    complete = read_complete(tmp_path / "c")
    assert complete is not None
    assert (complete.identity, complete.step) == ("fraud-1", 40)
    measured = {name for message in first.messages if isinstance(message, Measured) for name in message.values}
    assert {"trainwright_step", "trainwright_samples_per_second", "trainwright_evaluation_loss"} <= measured
    committed = [message.step for message in second.messages if isinstance(message, Committed)]
    assert committed == [10, 20, 30, 40]


def test_one_worker_gives_the_trees_of_xgboosts_own_loop(ranks: Ranks, spec: Spec, table: Path, tmp_path: Path) -> None:
    booster = {"objective": "binary:logistic", "max_depth": 4}
    ranks.finish(spec(tmp_path / "c", world=1, booster=booster, rounds=10))
    theirs = xgboost.train({**booster, "tree_method": "hist", "nthread": 1}, matrix_of(range(3)), 10)
    ours = xgboost.Booster(model_file=str(tmp_path / "c" / "model.ubj"))
    assert ours.get_dump(with_stats=True) == theirs.get_dump(with_stats=True)


def stopped(ranks: Ranks, spec: dict[str, Any]) -> list[Rank]:
    """Tell a running run to end, as supervisors do; expect that it has saved."""
    started = ranks.start(spec)
    first = started[0]
    first.wait_for(lambda message: isinstance(message, Measured) and message.values.get("trainwright_step", 0) >= 3)
    for rank in started:
        rank.say(Pause(request=1))
    ticks = []
    for rank in started:
        at = rank.wait_for(lambda message: isinstance(message, At))
        assert isinstance(at, At)
        assert at.tick is not None, f"rank {rank.number} does not train any more:\n{rank.text}"
        ticks.append(at.tick)
    for rank in started:
        rank.say(Act(request=1, action="stop", tick=max(ticks) + 1))
    assert [rank.code() for rank in started] == [210, 210], "\n".join(rank.text for rank in started)
    return started


@pytest.mark.slow
def test_a_resumed_run_has_the_bits_of_an_uninterrupted_one(ranks: Ranks, spec: Spec, tmp_path: Path) -> None:
    work: dict[str, Any] = {"rounds": LONG, "log_every_steps": 1, "early_stopping_rounds": LONG}
    first, _ = stopped(ranks, spec(tmp_path / "parts", **work))
    [end] = first.events("stopped")
    assert 3 <= end["committed_step"] == end["step"] < LONG
    work["rounds"] = end["step"] + SOME
    ranks.finish(spec(tmp_path / "whole", **work))
    first, _ = ranks.finish(spec(tmp_path / "parts", **work))
    assert [event["step"] for event in first.events("restored")] == [end["step"]]
    assert files(tmp_path / "parts") == files(tmp_path / "whole")
    assert (tmp_path / "parts" / "model.ubj").read_bytes() == (tmp_path / "whole" / "model.ubj").read_bytes()


def committed(store: CheckpointStore) -> int:
    return max((record.step for record in store.records()), default=0)


def has_committed(store: CheckpointStore, step: int) -> bool:
    return committed(store) >= step


def event_loops(rank: Rank) -> list[Path]:
    """XGBoost's own threads for collectives."""
    return [task for task in Path(f"/proc/{rank.process.pid}/task").iterdir() if is_event_loop(task / "comm")]


@pytest.mark.nightly
@pytest.mark.slow
def test_three_kills_lose_nothing_that_was_committed(ranks: Ranks, spec: Spec, tmp_path: Path) -> None:
    work: dict[str, Any] = {"rounds": LONG, "log_every_steps": 50}
    checkpoints = {"directory": str(tmp_path / "c"), "every_steps": 7}
    store, dice = CheckpointStore(tmp_path / "c"), random.Random(4)
    for victim in (0, 1, 0):
        before = committed(store)
        started = ranks.start(spec(tmp_path / "c", checkpoints=checkpoints, **work))
        enough = before + dice.randrange(10, 40)
        wait_until(partial(has_committed, store, enough), "commits")
        survivor = started[1 - victim]
        assert len(event_loops(survivor)) == 1, "what ends a survivor that XGBoost forgets looks for this thread"
        started[victim].kill()
        assert survivor.code() == 202, survivor.text
        assert "another worker is gone" in survivor.cause()
        at_least = committed(store)
        store.release_lease_of(survivor.attempt)  # as the victim's supervisor does, which knows that it is dead
    work["rounds"] = at_least + SOME
    ranks.finish(spec(tmp_path / "whole", **work))
    first, _ = ranks.finish(spec(tmp_path / "c", checkpoints=checkpoints, **work))
    assert [event["step"] for event in first.events("restored")] == [at_least]
    assert files(tmp_path / "c") == files(tmp_path / "whole")


def test_other_numbers_of_workers_go_on(ranks: Ranks, spec: Spec, tmp_path: Path) -> None:
    for world, rounds in ((2, 10), (3, 20), (1, 30)):
        first, *_ = ranks.finish(spec(tmp_path / "c", world=world, rounds=rounds))
    assert [event["from_world_size"] for event in first.events("restored")] == [3]
    assert committed(CheckpointStore(tmp_path / "c")) == 30
    assert scores(first, "auc")[-1] > 0.9


def test_training_ends_early(ranks: Ranks, spec: Spec, tmp_path: Path) -> None:
    work: dict[str, Any] = {
        "rounds": 1000, "early_stopping_rounds": 5, "evaluation_metrics": ["logloss"], "log_every_steps": 1000,
        "booster": {"objective": "binary:logistic", "max_depth": 8, "eta": 0.9},
    }
    first, _ = ranks.finish(spec(tmp_path / "c", **work))
    [end] = first.events("finished")
    booster = xgboost.Booster(model_file=str(tmp_path / "c" / "model.ubj"))
    assert end["step"] == booster.num_boosted_rounds() < 100
    for event in ("step", "evaluated"):
        assert [told["step"] for told in first.events(event)] == [1, end["step"]]
    assert booster.best_iteration == end["step"] - 5 - 1
    record = CheckpointStore(tmp_path / "c").records()[0]
    assert record.metadata["best_round"] == booster.best_iteration + 1
    assert record.metadata["best_score"] == booster.best_score


def test_training_ends_early_where_xgboosts_own_loop_does(ranks: Ranks, spec: Spec, tmp_path: Path) -> None:
    booster = {"objective": "binary:logistic", "max_depth": 4}
    work: dict[str, Any] = {
        "rounds": 300, "early_stopping_rounds": 1, "evaluation_metrics": ["logloss"], "booster": booster, "log_every_steps": 1,
    }
    scored: dict[str, Any] = {}
    xgboost.train(
        {**booster, "tree_method": "hist", "nthread": 1, "eval_metric": "logloss"}, matrix_of(range(3)), 300,
        evals=[(matrix_of(range(10, 12)), "evaluation")], evals_result=scored, early_stopping_rounds=1, verbose_eval=False,
    )
    wanted = len(scored["evaluation"]["logloss"])
    assert 5 < wanted < 300
    [first] = ranks.finish(spec(tmp_path / "c", world=1, **work))
    assert [event["step"] for event in first.events("finished")] == [wanted]
    assert [event["step"] for event in first.events("evaluated")] == list(range(1, wanted + 1))
    [again] = ranks.finish(spec(tmp_path / "c", world=1, **work))
    assert [event["step"] for event in again.events("finished")] == [wanted]
    assert not again.events("step")


def test_a_score_that_is_no_number_is_not_the_best(ranks: Ranks, spec: Spec, table: Path, tmp_path: Path) -> None:
    features, labels = rows(100, seed=20)
    write_csv(tmp_path / "honest.csv", features, 0 * labels)
    data = {
        "source": "table", "format": "csv", "path": str(table / "train"), "evaluation_path": str(tmp_path / "honest.csv"),
        "label": "fraud",
    }
    work: dict[str, Any] = {"data": data, "rounds": 5, "evaluation_metrics": ["logloss", "auc"], "early_stopping_rounds": 2}
    first, _ = ranks.finish(spec(tmp_path / "c", **work))
    assert [event["step"] for event in first.events("finished")] == [5]
    record = CheckpointStore(tmp_path / "c").records()[0]
    assert "best_score" not in record.metadata
    assert "best_iteration" not in xgboost.Booster(model_file=str(tmp_path / "c" / "model.ubj")).attributes()


@pytest.mark.parametrize("form", ["parquet", "libsvm"])
def test_formats_hold_the_same_table(ranks: Ranks, spec: Spec, tmp_path: Path, form: str) -> None:
    import pyarrow
    from pyarrow import parquet

    features, labels = rows(400, seed=1)
    for name in ("csv", form):
        (tmp_path / name).mkdir()
    write_csv(tmp_path / "csv" / "all.csv", features, labels)
    if form == "parquet":
        columns = {name: features[:, number] for number, name in enumerate(COLUMNS)} | {"fraud": labels}
        parquet.write_table(pyarrow.table(columns), tmp_path / form / "all.parquet")
    else:
        known = [[(index, value) for index, value in enumerate(row) if value == value] for row in features]
        lines = [" ".join([str(label), *(f"{i}:{v:.3f}" for i, v in row)]) for label, row in zip(labels, known, strict=True)]
        (tmp_path / form / "all.libsvm").write_text("# comment\n" + "\n".join(lines) + "  # end\n")
    dumps = []
    for name in ("csv", form):
        label = {} if name == "libsvm" else {"label": "fraud"}
        data = {"source": "table", "format": name, "path": str(tmp_path / name), **label}
        ranks.finish(spec(tmp_path / f"c-{name}", data=data, rounds=8))
        dumps.append(xgboost.Booster(model_file=str(tmp_path / f"c-{name}" / "model.ubj")).get_dump())
    ours = dumps[0]
    for number, name in enumerate(COLUMNS if form == "libsvm" else ()):
        ours = [tree.replace(f"[{name}<", f"[f{number}<") for tree in ours]
    assert ours == dumps[1]


@pytest.mark.parametrize("held_out", ["0 4:1\n1 0:2 3:1\n", "0 0:1\n1 0:2\n"], ids=["wider", "narrower"])
def test_held_out_rows_with_other_indexes(ranks: Ranks, spec: Spec, tmp_path: Path, held_out: str) -> None:
    (tmp_path / "train.libsvm").write_text("1 0:1 2:1\n0 1:1\n" * 20)
    (tmp_path / "held-out.libsvm").write_text(held_out)
    data = {
        "source": "table", "format": "libsvm", "path": str(tmp_path / "train.libsvm"),
        "evaluation_path": str(tmp_path / "held-out.libsvm"),
    }
    for rounds in (2, 4):
        first, _ = ranks.finish(spec(tmp_path / "c", data=data, rounds=rounds, evaluation_metrics=["logloss"]))
        assert [event["step"] for event in first.events("finished")] == [rounds]
    assert xgboost.Booster(model_file=str(tmp_path / "c" / "model.ubj")).num_features() == 3


def test_a_damaged_checkpoint_is_passed_over(ranks: Ranks, spec: Spec, tmp_path: Path) -> None:
    ranks.finish(spec(tmp_path / "c"))
    newest = sorted((tmp_path / "c").glob("step-40.*"))[0] / "model.ubj"
    damaged = bytearray(newest.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    newest.write_bytes(damaged)
    first, _ = ranks.finish(spec(tmp_path / "c"))
    assert len(first.events("checkpoint_quarantined")) == 1
    assert [event["step"] for event in first.events("restored")] == [30]
    for model in (tmp_path / "c").glob("step-*/model.ubj"):
        model.write_bytes(b"")
    first, second = ranks.finish(spec(tmp_path / "c"), code=13)
    assert first.cause() == second.cause()
    assert "holds no checkpoint that verifies" in first.cause()


def test_other_data_is_refused(ranks: Ranks, spec: Spec, table: Path, tmp_path: Path) -> None:
    shutil.copytree(table / "train", tmp_path / "data")
    data = {"source": "table", "format": "csv", "path": str(tmp_path / "data"), "label": "fraud"}
    ranks.finish(spec(tmp_path / "c", data=data, rounds=10))
    write_csv(tmp_path / "data" / "part-1.csv", *rows(300, seed=99))
    first, second = ranks.finish(spec(tmp_path / "c", data=data, rounds=20), code=12)
    assert first.cause().startswith("the data is not what step 10 was trained on")
    assert first.cause() == second.cause()


def test_wrong_data_ends_the_worker_that_reads_it(ranks: Ranks, spec: Spec, tmp_path: Path) -> None:
    data = {"source": "table", "format": "csv", "path": str(tmp_path / "no-such"), "label": "fraud"}
    first, _ = ranks.finish(spec(tmp_path / "c", data=data), code=12)
    missing = f"{tmp_path / 'no-such'} cannot be read: No such file or directory"
    assert first.cause() == f"{missing}; check the path, and what is mounted there"


def test_another_model_is_refused(ranks: Ranks, spec: Spec, tmp_path: Path) -> None:
    ranks.finish(spec(tmp_path / "c", rounds=10))
    first, _ = ranks.finish(spec(tmp_path / "c", booster={"objective": "reg:squarederror"}), code=10)
    assert first.cause().startswith("the checkpoint holds another model: its objective is binary:logistic there")


def test_a_volume_that_refuses(ranks: Ranks, spec: Spec, tmp_path: Path) -> None:
    (tmp_path / "c").write_text("a file, where the directory should be")
    first, *_ = ranks.finish(spec(tmp_path / "c", world=1), code=203)
    assert str(tmp_path / "c") in first.cause()


def test_a_node_is_checked_before_it_trains(ranks: Ranks, spec: Spec, tmp_path: Path) -> None:
    document = spec(tmp_path / "c", rounds=12, log_every_steps=1)
    document["lifecycle"]["preflight"] = {"when": "always"}
    started = ranks.finish(document)
    [checked] = started[0].events("preflight")
    assert min(checked["tflops"], checked["storage_seconds"], checked["bus_bytes_per_second"]) > 0
    assert checked["memory_bytes_per_second"] > 1e8
    assert 0 < checked["share_of_median"] < 2  # of two nodes the faster one is above their mean
    paces = [[message for message in rank.messages if isinstance(message, Pace)] for rank in started]
    assert [pace.step for pace in paces[0]] == [pace.step for pace in paces[1]] == list(range(1, 13))
    assert all(0 < pace.split.step_seconds - pace.split.waited_seconds < 10 for pace in [*paces[0], *paces[1]])
    document["lifecycle"]["preflight"]["min_bus_gigabytes_per_second"] = 1e6
    document["work"]["checkpoints"]["directory"] = str(tmp_path / "other")
    document["world"]["rendezvous"]["port"] = free_port()  # the tracker waits a minute for the one that it has just closed
    for rank in ranks.finish(document, code=201):
        assert "GB/s of an all-reduce, and lifecycle.preflight.min_bus_gigabytes_per_second is 1e+06" in rank.cause()


def test_nobody_runs_the_tracker(ranks: Ranks, spec: Spec, tmp_path: Path) -> None:
    document = spec(tmp_path / "c")
    document["lifecycle"]["peer_wait_seconds"] = 2
    first, second = ranks.start(document, {0: {"WORLD_SIZE": "3"}})
    assert (first.code(), second.code()) == (11, 205)
    assert second.cause().startswith("no tracker at localhost port")


def test_no_gpu(ranks: Ranks, spec: Spec, tmp_path: Path) -> None:
    document = spec(tmp_path / "c", world=1)
    document["world"]["device"] = "cuda"
    [first] = ranks.finish(document, code=11)
    assert first.cause().startswith("world.device is cuda, and XGBoost found no GPU in this pod")


@pytest.mark.nightly
def test_a_rank_that_is_stopped_most_of_the_time_is_told_from_one_that_waits(ranks: Ranks, spec: Spec, tmp_path: Path) -> None:
    started = ranks.start(spec(tmp_path / "c", rounds=LONG, log_every_steps=50))
    _, stopped = started
    every = 50
    stopped.wait_for(lambda message: isinstance(message, Pace) and message.step >= every)
    with mostly_stopped(stopped.process.pid):
        assert first_called_slow(started, every) == (1,)
