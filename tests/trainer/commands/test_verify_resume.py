"""The proof holds for runs that resume exactly, and fails for those that do not."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tests.gpu import NEEDS_GPU
from tests.trainer.commands.program import run, shown, write_run
from typer.testing import CliRunner, Result

from trainwright_trainer.checkpoint.record import encode_record
from trainwright_trainer.commands.app import app
from trainwright_trainer.commands.verify_resume import trial
from trainwright_trainer.commands.verify_resume.trial import Killed, ObservedAttempt, Trial, draw_moments
from trainwright_trainer.contract import Training
from trainwright_trainer.contract.spec_file import read_specification

pytestmark = pytest.mark.slow
ONE_RANK = ("--processes", "1", "--resume-processes", "1")
"""Enough for what is wrong whatever the size."""
STEPS = 24


@dataclass(frozen=True)
class Fallen:
    """A run of ddp on one rank that was killed, beside one that was not: real ones, which several tests look at."""

    spec: Path
    whole: ObservedAttempt
    killed: Killed


@pytest.fixture(scope="module")
def fallen(tmp_path_factory: pytest.TempPathFactory) -> Fallen:
    folder = tmp_path_factory.mktemp("fallen")
    spec = write_run(folder, world=1)
    read = read_specification(spec)
    assert isinstance(read.spec.work, Training)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("OMP_NUM_THREADS", "1")
        started = Trial(read, read.spec.work, folder, STEPS, STEPS // 3)
        whole = started.uninterrupted(1)
        return Fallen(spec, whole, started.killed(1, draw_moments(5, STEPS // 3, STEPS, None)))


def prove(fallen: Fallen, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Result:
    """The command, which finds these two starts done and makes the others."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(Trial, "uninterrupted", lambda self, processes: fallen.whole)
    monkeypatch.setattr(Trial, "killed", lambda self, processes, moments: fallen.killed)
    return CliRunner().invoke(app, ["verify-resume", "--spec", str(fallen.spec), "--steps", str(STEPS), *arguments])


@pytest.mark.nightly
def test_fsdp2_resumes_exactly_at_its_size_and_at_another(tmp_path: Path) -> None:
    write_run(tmp_path, engine="fsdp2")
    [as_shown] = shown("verify-resume")
    out, _ = run(tmp_path, *as_shown)
    assert out.splitlines()[-1] == "proven at 2 ranks and at 1 rank"
    proof = json.loads((tmp_path / "proof.json").read_text())
    assert proof["proven"]
    assert 8 <= proof["committed_step"] < STEPS
    held = {size: [check["holds"] for check in checks] for size, checks in proof["resumed"].items()}
    assert held == {"2": [True] * 4, "1": [True] * 4}
    assert proof["not_compared"] == {}
    assert not (tmp_path / "own-checkpoints").exists()


def test_ddp_resumes_exactly(fallen: Fallen, monkeypatch: pytest.MonkeyPatch) -> None:
    result = prove(fallen, monkeypatch, *ONE_RANK)
    assert result.exit_code == 0, result.output
    assert result.output.count("  yes  ") == 4
    assert "proven" in result.output.splitlines()[-1]


LANGUAGE: dict[str, Any] = {
    "task": "causal-lm", "data": {"source": "python-stdlib", "sequence_length": 64, "files": 10},
    "model": {
        "architecture": "llama", "vocab_size": 256, "num_attention_heads": 4, "max_position_embeddings": 64,
    },
}


@NEEDS_GPU
@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("engine", ["ddp", "fsdp2"])
@pytest.mark.parametrize("work", [{}, LANGUAGE], ids=["images", "language"])
def test_a_gpu_resumes_exactly_where_it_is_asked_to(
    tmp_path: Path, work: dict[str, Any], engine: str, deterministic: bool
) -> None:
    spec = write_run(tmp_path, world=1, **work, engine=engine, precision="bf16", deterministic=deterministic)
    document = json.loads(spec.read_text())
    document["world"]["device"] = "cuda"
    spec.write_text(json.dumps(document))
    out, _ = run(tmp_path, "verify-resume", "--spec", str(spec), "--steps", str(STEPS), *ONE_RANK)
    assert out.splitlines()[-1] == "proven at 1 rank"
    assert ("weights and optimizer" in out) == deterministic


@pytest.fixture
def altered(fallen: Fallen, tmp_path: Path) -> Callable[[int], Fallen]:
    """The killed run with the position of its commits moved: well-formed, verified, and wrong."""

    def alter(samples: int) -> Fallen:
        directory = tmp_path / "altered"
        shutil.copytree(fallen.killed.attempt.checkpoints, directory)
        attempt = replace(fallen.killed.attempt, checkpoints=directory)
        record = attempt.newest
        assert record is not None
        moved = record.model_copy(update={"samples_consumed": record.samples_consumed + samples})
        (directory / "commits" / f"{record.name}.json").write_bytes(encode_record(moved))
        return replace(fallen, killed=replace(fallen.killed, attempt=attempt))

    return alter


def test_a_position_that_moved_is_found_and_named(
    fallen: Fallen, altered: Callable[[int], Fallen], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = tmp_path / "proof.json"
    result = prove(altered(-8), monkeypatch, *ONE_RANK, "--json", str(found))
    assert result.exit_code == 1, result.output
    first = fallen.killed.committed_step + 1
    last = result.output.splitlines()[-1]
    assert last.startswith(f"NOT PROVEN at 1 rank, from step {first} on: samples: step {first}: sample 1 of 16 is id ")
    assert not json.loads(found.read_text())["proven"]


def test_a_resume_that_fails_is_no_proof(fallen: Fallen, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    directory = tmp_path / "in-the-way"
    shutil.copytree(fallen.killed.attempt.checkpoints, directory)
    shutil.rmtree(directory / "commits")
    (directory / "commits").touch()
    attempt = replace(fallen.killed.attempt, checkpoints=directory)
    result = prove(replace(fallen, killed=replace(fallen.killed, attempt=attempt)), monkeypatch, *ONE_RANK)
    assert result.exit_code == 1, result.output
    assert "the run ended with 203 (StorageUnavailable)" in result.output.splitlines()[-1]


@pytest.mark.parametrize(("arguments", "says"), [
    (["--steps", "3"], "use at least 6"),
    (["--kill-at", "2"], "it must be 4 to 11"),
    (["--resume-processes", "3"], "3 ranks cannot share them evenly"),
])
def test_what_cannot_be_proven_is_refused(
    arguments: list[str], says: str, fallen: Fallen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial.Trial, "uninterrupted", lambda self, processes: fallen.whole)
    monkeypatch.setattr(trial.Trial, "killed", lambda self, processes, moments: fallen.killed)
    result = CliRunner().invoke(app, ["verify-resume", "--spec", str(fallen.spec), *arguments])
    assert result.exit_code == 10, result.output
    assert says in result.stderr
