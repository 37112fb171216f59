from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.train_spec import TINY, Case

from trainwright_trainer.contract import RunSpec
from trainwright_trainer.contract.training import Training

CASE = Case(TINY, 256, micro=2, accumulation=3, steps=20, warm_up_steps=10, log_every_steps=10)


def work_of(spec: RunSpec) -> Training:
    assert isinstance(spec.work, Training)
    return spec.work


def test_every_side_can_read_the_specification(tmp_path: Path) -> None:
    spec = CASE.specification(tmp_path / "tokens.bin", tmp_path / "side")
    assert RunSpec.model_validate_json(spec.model_dump_json(exclude_none=True)) == spec


def test_a_step_has_the_tokens_of_all_ranks(tmp_path: Path) -> None:
    spec = CASE.specification(tmp_path / "tokens.bin", tmp_path / "side")
    batch = work_of(spec).batch
    assert CASE.step_tokens == batch.micro * batch.accumulation * spec.world.size * 256 == 3072


@pytest.mark.parametrize("engine", ["ddp", "fsdp2"])
def test_keys_of_the_work_can_be_replaced(tmp_path: Path, engine: str) -> None:
    checkpoints = {"directory": "/elsewhere", "every_steps": 4, "save": "blocking"}
    work = work_of(CASE.specification(tmp_path / "tokens.bin", tmp_path / "side", engine=engine, checkpoints=checkpoints))
    assert (work.engine, work.checkpoints.every_steps, work.checkpoints.save) == (engine, 4, "blocking")


def test_two_runs_do_not_meet(tmp_path: Path) -> None:
    one, other = (CASE.specification(tmp_path / "tokens.bin", tmp_path / side) for side in ("one", "other"))
    assert one.identity != other.identity
    assert one.state_directory != other.state_directory
