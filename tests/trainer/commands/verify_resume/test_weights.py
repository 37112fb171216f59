"""Weights that lie close and weights that never moved: real checkpoints, told apart."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import save
from tests.trainer.contract.specifications import RESNET, changed
from torch import Tensor

from trainwright_trainer.checkpoint import CheckpointStore, CommitRecord
from trainwright_trainer.commands.verify_resume.leg import Leg
from trainwright_trainer.commands.verify_resume.weights import WEIGHTS, compare_weights, parameter_names
from trainwright_trainer.contract import RunSpec, Training
from trainwright_trainer.engine.whole_state import MODEL_FILE

FIRST = {"in.weight": torch.full((8, 4), 20.0, dtype=torch.float64), "out.bias": torch.zeros(8, dtype=torch.float64)}
END = {"in.weight": FIRST["in.weight"] + 3e-3, "out.bias": FIRST["out.bias"] - 4e-3}
"""A short way, as in a warm-up: of their length it is less than a thousandth."""
PARAMETERS = frozenset(FIRST)


def leg(folder: Path, commits: dict[int, dict[str, Tensor]]) -> Leg:
    """A run with these weights at these steps, beside batch statistics of its own."""
    store = CheckpointStore(folder)
    for step, weights in commits.items():
        draft = store.begin(step, "first")
        statistics = {"norm.running_mean": torch.rand(4), "norm.num_batches_tracked": torch.tensor(step)}
        digest = draft.write(MODEL_FILE, [save({**weights, **statistics})])
        store.commit(CommitRecord(
            identity="small-1", attempt="first", step=step, samples_consumed=step, world_size=1, files=(digest,)
        ))
    return Leg(1, folder, {}, {}, None)


@pytest.fixture
def whole(tmp_path: Path) -> Leg:
    return leg(tmp_path / "whole", {4: FIRST, 8: {name: tensor + 1 for name, tensor in FIRST.items()}, 12: END})


def resumed(tmp_path: Path, weights: dict[str, Tensor], step: int = 12) -> Leg:
    return leg(tmp_path / "resumed", {step: weights})


def test_weights_that_ended_in_the_same_place_hold(whole: Leg, tmp_path: Path) -> None:
    near = {name: FIRST[name] + 0.99 * (END[name] - FIRST[name]) for name in FIRST}
    check = compare_weights(whole, resumed(tmp_path, near), PARAMETERS, 0.05)
    assert (check.name, check.holds, check.step) == (WEIGHTS, True, None)
    assert check.says == "1.0e-02 of their way from step 4 to step 12 apart, 0.05 is allowed"


def test_weights_that_never_moved_do_not(whole: Leg, tmp_path: Path) -> None:
    length = math.sqrt(sum(float(tensor.square().sum()) for tensor in END.values()))
    way = math.sqrt(sum(float((END[name] - FIRST[name]).square().sum()) for name in END))
    assert way / length < 1e-3  # measured by their length, they would
    check = compare_weights(whole, resumed(tmp_path, FIRST), PARAMETERS, 0.3)
    assert (check.holds, check.step) == (False, 12)
    assert check.says.startswith("1.0e+00 of their way")


@pytest.mark.parametrize("weights", [
    END | {"out.bias": torch.full((8,), math.nan)}, {"in.weight": END["in.weight"]},
], ids=["no number", "not there"])
def test_weights_that_cannot_be_near_do_not(weights: dict[str, Tensor], whole: Leg, tmp_path: Path) -> None:
    check = compare_weights(whole, resumed(tmp_path, weights), PARAMETERS, 0.3)
    assert (check.holds, check.step) == (False, 12)


def test_ends_of_two_steps_are_found(whole: Leg, tmp_path: Path) -> None:
    check = compare_weights(whole, resumed(tmp_path, END, 8), PARAMETERS, 0.3)
    assert (check.name, check.holds, check.step) == (WEIGHTS, False, 9)


def test_a_run_that_does_not_move_proves_nothing(tmp_path: Path) -> None:
    still = leg(tmp_path / "still", {4: FIRST, 12: FIRST})
    check = compare_weights(still, resumed(tmp_path, FIRST), PARAMETERS, 0.3)
    assert check.holds is None
    assert check.says == "those of the uninterrupted run do not move from step 4 to step 12"


def test_statistics_are_no_weights() -> None:
    work = RunSpec.model_validate(changed({
        "work.task": "image-classification", "work.data": {"source": "digits"}, "work.model": RESNET,
    })).work
    assert isinstance(work, Training)
    names = parameter_names(work)
    assert len(names) > 4
    assert not any("running" in name or "tracked" in name for name in names)
