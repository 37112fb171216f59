"""How fast a run trains here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.trainer.commands.program import run, shown, write_run
from typer.testing import CliRunner

from trainwright_trainer.commands.app import app


@pytest.mark.slow
def test_it_measures_the_run_itself(tmp_path: Path) -> None:
    write_run(tmp_path, world=1)
    [as_shown] = shown("bench")
    out, _ = run(tmp_path, *as_shown, "--peak-tflops", "0.05")
    lines = out.splitlines()
    assert lines[0] == "digits-1: ddp, 1 rank on cpu, fp32, 16 samples a step"
    names = [line.split("  ")[1].strip() for line in lines[1:]]
    assert names == ["measured", "speed", "step", "data", "memory", "model FLOPs", "MFU"]
    found = json.loads((tmp_path / "figures.json").read_text())
    speed = found["speed"]
    assert (found["ranks"], speed["steps"], speed["warm_up"]) == (1, 30, 10)
    assert speed["step_seconds_p10"] <= speed["step_seconds"] <= speed["step_seconds_p90"]
    # A mean and a median of thirty steps on a busy machine: of one size, and no more.
    assert 0.1 < speed["samples_per_second"] * speed["step_seconds"] / 16 < 3
    assert speed["peak_bytes"] > 2**26  # torch alone takes more
    assert 0 <= speed["data_share"] < 1
    assert found["mfu"] == pytest.approx(speed["samples_per_second"] * found["flops"] / 0.05e12)
    assert not (tmp_path / "own-checkpoints").exists()


@pytest.mark.parametrize(("arguments", "says"), [
    (["--steps", "5"], "5 steps are too few to say how long one takes; measure at least 10"),
    (["--warm-up", "0"], "let --warm-up be at least 1"),
    (["--peak-tflops", "-1"], "--peak-tflops is -1"),
    (["--processes", "5"], "5 ranks cannot share them evenly"),
])
def test_what_would_mean_nothing_is_refused(arguments: list[str], says: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["bench", "--spec", str(write_run(tmp_path)), *arguments])
    assert result.exit_code == 10, result.output
    assert result.stderr.startswith("error: ")
    assert says in result.stderr
