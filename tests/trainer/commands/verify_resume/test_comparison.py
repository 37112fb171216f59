"""What a comparison says of attempts that are the same, and of those that are not."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save
from tests.trainer.contract.specifications import RESNET, changed
from torch import Tensor

from trainwright_trainer.checkpoint import CheckpointStore, CommitRecord
from trainwright_trainer.commands.verify_resume.comparison import (
    WEIGHTS,
    Check,
    Proof,
    compare_bits,
    compare_commit,
    compare_losses,
    compare_samples,
    compare_weights,
    document,
    parameter_names,
    report,
)
from trainwright_trainer.commands.verify_resume.trial import ObservedAttempt, Seen, draw_moments
from trainwright_trainer.contract import RunSpec, Training
from trainwright_trainer.engine.whole_state import MODEL_FILE

STEPS = 4


def seen(step: int, salt: str = "") -> tuple[Seen, ...]:
    return tuple(Seen(position, position * 7 % 20, f"{position}{salt}") for position in range(4 * (step - 1), 4 * step))


WHOLE = ObservedAttempt(2, Path("/none"), {step: seen(step) for step in range(1, 5)}, {1: 2.0, 2: 1.5, 3: 1.25, 4: 1.0}, None)
KILLED = replace(WHOLE, samples={1: seen(1), 2: seen(2), 3: seen(3)})
RESUMED = replace(WHOLE, samples={3: seen(3), 4: seen(4)}, losses={3: 1.25, 4: 1.0}, restored_step=2)


def test_what_is_equal_holds() -> None:
    assert compare_commit(2, RESUMED).holds
    assert compare_samples(WHOLE, KILLED, RESUMED, STEPS).holds
    assert compare_losses(WHOLE, RESUMED, STEPS, 0.0).holds
    assert compare_bits(WHOLE, RESUMED).step == 1  # nothing was committed at all


@pytest.mark.parametrize(("killed", "resumed", "step", "says"), [
    (KILLED, replace(RESUMED, samples={3: seen(3), 4: seen(3)}), 4, "sample 1 of 4 is id 4 at position 12 uninterrupted, and id"),
    (KILLED, replace(RESUMED, samples={3: seen(3), 4: seen(4, "!")}), 4, "sample 1 of 4, id 4, has other contents after the"),
    (KILLED, replace(RESUMED, samples={4: seen(4)}), 3, "not every rank told of it after the resume"),
    (KILLED, replace(RESUMED, samples={3: seen(3)[:3], 4: seen(4)}), 3, "4 samples uninterrupted and 3 after the resume"),
    (replace(KILLED, samples={1: seen(1), 2: seen(1)}), RESUMED, 2, "before the kill"),
    (replace(KILLED, samples={2: seen(2)}), RESUMED, 1, "not every rank told of it before the kill"),
])
def test_other_samples_are_found(killed: ObservedAttempt, resumed: ObservedAttempt, step: int, says: str) -> None:
    check = compare_samples(WHOLE, killed, resumed, STEPS)
    assert (check.holds, check.step) == (False, step)
    assert says in check.says


@pytest.mark.parametrize(("missing", "when"), [(1, "uninterrupted"), (4, "uninterrupted")])
def test_a_step_that_nobody_told_of_is_not_equal(missing: int, when: str) -> None:
    def without(attempt: ObservedAttempt) -> ObservedAttempt:
        return replace(attempt, samples={step: told for step, told in attempt.samples.items() if step != missing})

    check = compare_samples(without(WHOLE), without(KILLED), without(RESUMED), STEPS)
    assert (check.holds, check.step) == (False, missing)
    assert check.says == f"step {missing}: not every rank told of it {when}"


@pytest.mark.parametrize(("losses", "tolerance", "step"), [
    ({3: 1.25, 4: 1.001}, 1e-4, 4), ({3: 1.2501, 4: 1.0}, 0.0, 3), ({3: float("nan"), 4: 1.0}, 0.5, 3), ({4: 1.0}, 0.5, 3),
])
def test_other_losses_are_found(losses: dict[int, float], tolerance: float, step: int) -> None:
    check = compare_losses(WHOLE, replace(RESUMED, losses=losses), STEPS, tolerance)
    assert (check.holds, check.step) == (False, step)


def test_losses_within_the_tolerance_hold_and_say_how_far() -> None:
    check = compare_losses(WHOLE, replace(RESUMED, losses={3: 1.25, 4: 1.0001}), STEPS, 1e-3)
    assert check.holds
    assert "1.0e-04 apart (step 4)" in check.says


@pytest.mark.parametrize("restored", [None, 1, 3])
def test_a_resume_from_elsewhere_is_found(restored: int | None) -> None:
    check = compare_commit(2, replace(RESUMED, restored_step=restored))
    assert (check.holds, check.step) == (False, (restored or 0) + 1)


def test_the_first_step_that_differs_is_the_verdict() -> None:
    checks = (Check("losses", False, "step 6: 1 and 2", 6), Check("samples", False, "step 5: gone", 5), Check("state", None, "-"))
    proof = Proof("run-1", "ddp", 12, 4, 2, 7, 4, 0, {2: (Check("losses", True, "same"),), 1: checks})
    assert not proof.holds
    assert report(proof).splitlines()[-1] == "NOT PROVEN at 1 rank, from step 5 on: samples: step 5: gone"


YES, SEEN = Check("losses", True, "same"), Check("samples", True, "same")


@pytest.mark.parametrize(("resumed", "says", "left_open"), [
    ({2: (SEEN, YES), 1: (SEEN, YES)}, "proven at 2 ranks and at 1 rank", {}),
    (
        {2: (SEEN, YES), 1: (Check("newest commit", True, "step 4"), SEEN, Check("losses", None, "dropout"),
                             Check("weights", None, "dropout"))},
        "proven at 2 ranks; at 1 rank: newest commit and samples only (losses and weights: dropout)",
        {1: ["losses", "weights"]},
    ),
    (
        {2: (SEEN, YES, Check("weights", None, "still"))}, "proven at 2 ranks: samples and losses only (weights: still)",
        {2: ["weights"]},
    ),
], ids=["all", "another size", "this size"])
def test_what_was_not_compared_is_in_the_verdict(
    resumed: dict[int, tuple[Check, ...]], says: str, left_open: dict[int, list[str]]
) -> None:
    proof = Proof("run-1", "ddp", 12, 4, 2, 7, 4, 0, resumed)
    assert report(proof).splitlines()[-1] == says
    told = document(proof)
    assert (told["proven"], told["verdict"], told["not_compared"]) == (True, says, left_open)


def test_a_seed_draws_one_moment_after_the_first_commit() -> None:
    assert draw_moments(1, 4, 12, None) == draw_moments(1, 4, 12, None)
    drawn = {draw_moments(seed, 4, 12, None)[0] for seed in range(50)}
    assert len(drawn) > 40
    assert {moment.step for moment in drawn} == set(range(4, 10))
    assert [moment.step for moment in draw_moments(1, 4, 12, 11)] == [11, 11, 11]


FIRST = {"in.weight": torch.full((8, 4), 20.0, dtype=torch.float64), "out.bias": torch.zeros(8, dtype=torch.float64)}
END = {"in.weight": FIRST["in.weight"] + 3e-3, "out.bias": FIRST["out.bias"] - 4e-3}
"""A short way, as in a warm-up: of their length it is less than a thousandth."""
PARAMETERS = frozenset(FIRST)


def attempt(folder: Path, commits: dict[int, dict[str, Tensor]]) -> ObservedAttempt:
    """A run with these weights at these steps, beside batch statistics of its own."""
    store = CheckpointStore(folder)
    for step, weights in commits.items():
        draft = store.begin(step, "first")
        statistics = {"norm.running_mean": torch.rand(4), "norm.num_batches_tracked": torch.tensor(step)}
        digest = draft.write(MODEL_FILE, [save({**weights, **statistics})])
        store.commit(CommitRecord(
            identity="small-1", attempt="first", step=step, samples_consumed=step, world_size=1, files=(digest,)
        ))
    return ObservedAttempt(1, folder, {}, {}, None)


@pytest.fixture
def whole(tmp_path: Path) -> ObservedAttempt:
    return attempt(tmp_path / "whole", {4: FIRST, 8: {name: tensor + 1 for name, tensor in FIRST.items()}, 12: END})


def resumed(tmp_path: Path, weights: dict[str, Tensor], step: int = 12) -> ObservedAttempt:
    return attempt(tmp_path / "resumed", {step: weights})


def test_weights_that_ended_in_the_same_place_hold(whole: ObservedAttempt, tmp_path: Path) -> None:
    near = {name: FIRST[name] + 0.99 * (END[name] - FIRST[name]) for name in FIRST}
    check = compare_weights(whole, resumed(tmp_path, near), PARAMETERS, 0.05)
    assert (check.name, check.holds, check.step) == (WEIGHTS, True, None)
    assert check.says == "1.0e-02 of their way from step 4 to step 12 apart, 0.05 is allowed"


def test_weights_that_never_moved_do_not(whole: ObservedAttempt, tmp_path: Path) -> None:
    length = math.sqrt(sum(float(tensor.square().sum()) for tensor in END.values()))
    way = math.sqrt(sum(float((END[name] - FIRST[name]).square().sum()) for name in END))
    assert way / length < 1e-3  # measured by their length, they would
    check = compare_weights(whole, resumed(tmp_path, FIRST), PARAMETERS, 0.3)
    assert (check.holds, check.step) == (False, 12)
    assert check.says.startswith("1.0e+00 of their way")


@pytest.mark.parametrize("weights", [
    END | {"out.bias": torch.full((8,), math.nan)}, {"in.weight": END["in.weight"]},
], ids=["no number", "not there"])
def test_weights_that_cannot_be_near_do_not(weights: dict[str, Tensor], whole: ObservedAttempt, tmp_path: Path) -> None:
    check = compare_weights(whole, resumed(tmp_path, weights), PARAMETERS, 0.3)
    assert (check.holds, check.step) == (False, 12)


def test_ends_of_two_steps_are_found(whole: ObservedAttempt, tmp_path: Path) -> None:
    check = compare_weights(whole, resumed(tmp_path, END, 8), PARAMETERS, 0.3)
    assert (check.name, check.holds, check.step) == (WEIGHTS, False, 9)


def test_a_run_that_does_not_move_proves_nothing(tmp_path: Path) -> None:
    still = attempt(tmp_path / "still", {4: FIRST, 12: FIRST})
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
