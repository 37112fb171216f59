"""A whole run on one machine."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.trainer.commands.program import SECONDS, run, shown, start, write_run
from tests.trainer.contract.specifications import changed

from trainwright_trainer.checkpoint import CheckpointStore, read_complete
from trainwright_trainer.commands.local import free_port


def events(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


@pytest.mark.slow
def test_a_run_of_two_nodes_is_stopped_and_goes_on_with_one_rank(tmp_path: Path) -> None:
    spec, directory = write_run(tmp_path, batch={"micro": 8}, duration={"steps": 400}), tmp_path / "checkpoints"
    as_it_is, with_one_rank = shown("train")
    document = json.loads(spec.read_text())
    document["world"] |= {"nodes": 2, "processes_per_node": 1}
    spec.write_text(json.dumps(document))

    told = start(tmp_path, *as_it_is)
    _wait_for_step(told)
    told.send_signal(signal.SIGTERM)
    told.communicate(timeout=SECONDS)
    assert told.returncode == 210
    saved = CheckpointStore(directory).records()[0]
    assert saved.world_size == 2
    assert 0 < saved.step < 400
    assert not (tmp_path / "own-checkpoints").exists()

    document["work"]["duration"] = {"steps": saved.step + 4}
    spec.write_text(json.dumps(document))
    out, _ = run(tmp_path, *with_one_rank)
    [restored] = [event for event in events(out) if event["event"] == "restored"]
    assert (restored["step"], restored["from_world_size"]) == (saved.step, 2)
    newest = CheckpointStore(directory).records()[0]
    assert (newest.step, newest.samples_consumed, newest.world_size) == (saved.step + 4, (saved.step + 4) * 16, 1)
    complete = read_complete(directory)
    assert complete is not None
    assert complete.identity == "digits-1"

    again, _ = run(tmp_path, *with_one_rank)
    assert "already_complete" in again


def _wait_for_step(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if '"event": "step"' in line:
            return
    raise AssertionError(f"it ended with {process.wait()} before its first step")


def test_a_script_works_in_the_directory_that_it_is_told(tmp_path: Path) -> None:
    program = "import os, pathlib; pathlib.Path(os.environ['TRAINWRIGHT_CHECKPOINT_DIRECTORY'], os.environ['RANK']).touch()"
    work = {"kind": "script", "command": [sys.executable, "-c", program], "state_directory": "/not/here"}
    document = changed({"work": work, "http_port": free_port()})
    (tmp_path / "run.json").write_text(json.dumps(document))
    (tmp_path / "mine").mkdir()
    run(tmp_path, "train", "--spec", "run.json", "--directory", "mine", "--processes", "2")
    assert {"0", "1", "COMPLETE"} <= {path.name for path in (tmp_path / "mine").iterdir()}


def test_two_runs_that_begin_at_once_take_ports_of_their_own(tmp_path: Path) -> None:
    """Of one specification. Each waits for the other, so that both have their ports at the same time."""
    program = (
        "import os, pathlib, time; pathlib.Path(os.environ['TRAINWRIGHT_CHECKPOINT_DIRECTORY'], 'up').touch()\n"
        f"for _ in range({100 * SECONDS}):\n"
        "    if all(pathlib.Path(name, 'up').exists() for name in ('one', 'other')): break\n"
        "    time.sleep(0.01)\n"
        "else: raise SystemExit('the other never came')"
    )
    work = {"kind": "script", "command": [sys.executable, "-c", program], "state_directory": "/not/here"}
    wanted = free_port()
    (tmp_path / "run.json").write_text(json.dumps(changed({"work": work, "http_port": wanted})))
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    runs = [start(tmp_path, "train", "--spec", "run.json", "--directory", name, "--processes", "1") for name in ("one", "other")]
    told: list[str] = []
    for process in runs:
        _, errors = process.communicate(timeout=SECONDS)
        assert process.returncode == 0
        told += errors.splitlines()
    [note] = told
    assert note.startswith(f"note: port {wanted} is taken here; /metrics is on port ")


def test_what_cannot_be_played_is_refused_in_a_sentence(tmp_path: Path) -> None:
    write_run(tmp_path)
    out, errors = run(tmp_path, "train", "--spec", "run.json", "--processes", "3", code=10)
    [line] = errors.splitlines()
    assert line == (
        "error: a step of this run has 32 samples, and 3 ranks cannot share them evenly; use one of 1, 2, 4, 8, 16, 32"
    )
    assert not out
