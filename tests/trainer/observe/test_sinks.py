"""Real event files and real offline runs; training goes on without a sink that fails."""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # type: ignore[import-untyped]
from tests.trainer.supervisor.conftest import specification, training_work
from wandb.proto import wandb_internal_pb2

from trainwright_trainer.contract import RunSpec
from trainwright_trainer.contract.failures import InvalidRunError
from trainwright_trainer.observe import sinks
from trainwright_trainer.observe.sinks import Sinks, open_sinks

LOSS = "trainwright_loss"


def spec_with(directory: Path, *metrics: Mapping[str, Any], store: str | None = None) -> RunSpec:
    work = training_work(directory / "state") | {"metrics": list(metrics)}
    if store:
        work["checkpoints"] = {**work["checkpoints"], "directory": store}
    return specification(directory, 1, 1, work, "127.0.0.")


def write(spec: RunSpec, first: int, last: int, offset: float = 0) -> None:
    """One attempt, from after step ``first`` until ``last``."""
    opened = open_sinks(spec, leads=True)
    opened.begin(first)
    for step in range(first + 1, last + 1):
        opened.write(step, {LOSS: step + offset})
    opened.close()


def test_tensorboard_shows_attempts_as_one_curve(tmp_path: Path) -> None:
    spec = spec_with(tmp_path, {"to": "tensorboard"})
    write(spec, 0, 30)
    write(spec, 20, 40, offset=0.5)  # restored step 20
    events = EventAccumulator(str(tmp_path / "state" / "tensorboard" / spec.identity))
    events.Reload()
    curve = {event.step: event.value for event in events.Scalars(LOSS)}
    assert curve == {**{step: step for step in range(1, 21)}, **{step: step + 0.5 for step in range(21, 41)}}


@pytest.mark.slow
@pytest.mark.parametrize("store", [None, "s3://example-checkpoints/digits"], ids=["claim", "object store"])
def test_wandb_offline(store: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With checkpoints on an object store its files are in the pod's scratch."""
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    spec = spec_with(tmp_path, {"to": "wandb", "project": "digits", "mode": "offline"}, store=store)
    write(spec, 0, 3)
    [path] = (tmp_path / ("scratch" if store else "state") / "wandb").rglob("*.wandb")
    records = finished(path)
    [run] = [record.run for record in records if record.HasField("run")][:1]
    assert (run.project, run.run_id, run.run_group) == ("digits", spec.identity, spec.run)
    assert json.loads(next(item.value_json for item in run.config.update if item.key == "engine")) == "ddp"
    history = [
        {item.key or item.nested_key[0]: json.loads(item.value_json) for item in record.history.item}
        for record in records if record.HasField("history")
    ]
    assert [(row[LOSS], row["trainwright_step"]) for row in history] == [(1, 1), (2, 2), (3, 3)]


def finished(path: Path) -> list[Any]:
    """Records of a run, once its last one is there: a process of the package writes them, maybe after it has answered."""
    deadline = time.monotonic() + 60
    while not (records := list(read(path))) or not records[-1].HasField("exit"):
        assert time.monotonic() < deadline, [record.WhichOneof("record_type") for record in records]
        time.sleep(0.05)
    return records


def read(path: Path) -> Iterator[Any]:
    """Records of a file as LevelDB writes its log: blocks of 32 KiB, a head of checksum, length and kind before each piece."""
    data, at, pieces = path.read_bytes(), 7, b""  # after the file's own head
    while at + 7 <= len(data):
        _, length, kind = struct.unpack_from("<IHB", data, at)
        if kind == 0 or 32768 - at % 32768 < 7:  # the rest of a block is empty
            at += 32768 - at % 32768
            continue
        if at + 7 + length > len(data):
            return  # not all of it is there yet
        pieces += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last piece
            record = wandb_internal_pb2.Record()  # type: ignore[attr-defined]
            record.ParseFromString(pieces)
            pieces = b""
            yield record


def test_only_rank_0_writes(tmp_path: Path) -> None:
    opened = open_sinks(spec_with(tmp_path, {"to": "tensorboard"}), leads=False)
    opened.begin(0)
    opened.close()
    assert not (tmp_path / "state").exists()


def test_a_package_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sinks, "find_spec", lambda package: None)
    with pytest.raises(InvalidRunError, match=r"install trainwright-trainer\[wandb\], or remove wandb from work.metrics"):
        open_sinks(spec_with(tmp_path, {"to": "wandb", "project": "digits"}), leads=True)


def test_a_sink_that_fails_is_dropped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "state").touch()  # no directory
    spec = spec_with(tmp_path, {"to": "tensorboard"})
    write(spec, 0, 3)
    assert capsys.readouterr().out.count("sink_dropped") == 1


def test_the_others_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    class Recorder:
        def __init__(self, breaks_at: int) -> None:
            self.breaks_at, self.steps = breaks_at, list[int]()

        def begin(self, step: int, config: Mapping[str, Any]) -> None:
            pass

        def write(self, step: int, values: Mapping[str, float]) -> None:
            if step == self.breaks_at:
                raise OSError(28, "No space left on device")
            self.steps.append(step)

        def close(self) -> None:
            self.steps.append(-1)

    broken, whole = Recorder(2), Recorder(99)
    opened = Sinks({"broken": broken, "whole": whole}, {})
    opened.begin(0)
    for step in (1, 2, 3):
        opened.write(step, {LOSS: 1.0})
    opened.close()
    assert (broken.steps, whole.steps) == ([1], [1, 2, 3, -1])
    assert "No space left on device" in capsys.readouterr().out
