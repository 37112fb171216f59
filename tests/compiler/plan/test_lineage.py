"""The checkpoint directory of a script or command: its own for each identity, or by name over edits."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from tests.compiler.example import Data, codes, command, compiled, script

from trainwright.plan.model import CheckpointPlan

NAMED: Data = {"checkpoints": {"lineage": "first"}}
ANOTHER: Data = {"image": "registry.example.com/another@sha256:" + "a" * 64}


def checkpoint(run: Data) -> CheckpointPlan:
    planned = compiled(run).plan.checkpoint
    assert planned is not None
    return planned


@pytest.mark.parametrize("edit", [ANOTHER, {"env": {"PLAIN": "edited"}}, {"attempt": 2}, script("python", "new.py")])
@pytest.mark.parametrize("work", [script("python", "old.py"), command("python", "old.py")])
def test_a_named_lineage_stays_over_edits_and_others_do_not(work: Data, edit: Data) -> None:
    assert compiled({**work, **NAMED}).identity != compiled({**work, **NAMED, **edit}).identity
    assert checkpoint({**work, **NAMED, **edit}).directory == "/checkpoints/example/first"
    assert checkpoint({**work, **edit}).directory != checkpoint(work).directory


def test_pods_are_told_the_named_directory() -> None:
    (run,) = {
        variable["value"]
        for manifest in compiled({**script("python", "train.py"), **NAMED}).manifests
        if manifest["kind"] == "Job"
        for container in manifest["spec"]["template"]["spec"]["containers"]
        for variable in container["env"]
        if variable["name"] == "TRAINWRIGHT_CHECKPOINT_DIRECTORY"
    }
    assert run == "/checkpoints/example/first"


def test_the_directory_of_an_earlier_hash_can_be_kept_by_its_name() -> None:
    work = command("python", "old.py")
    earlier = checkpoint(work)
    assert checkpoint({**work, **ANOTHER, "checkpoints": {"lineage": earlier.lineage}}).directory == earlier.directory


def test_a_trainer_has_its_lineage_from_its_model() -> None:
    with pytest.raises(ValidationError, match="never loads another model's checkpoint"):
        compiled(NAMED)


@pytest.mark.parametrize("work", [script("python", "train.py"), command("python", "train.py")])
def test_a_directory_to_start_from_is_told_beside_the_runs_own(work: Data) -> None:
    edited = {**work, "workload": {**work["workload"], "resume_from": "/checkpoints/earlier"}}
    before, after = ({one.name: one.value for one in compiled(run).plan.environment} for run in (work, edited))
    told = after["TRAINWRIGHT_CHECKPOINT_DIRECTORY"]
    assert after.keys() - before.keys() == {"TRAINWRIGHT_RESUME_DIRECTORY"}
    assert after["TRAINWRIGHT_RESUME_DIRECTORY"] == "/checkpoints/earlier"
    assert told == checkpoint(edited).directory
    assert str(told).startswith("/checkpoints/example/")


@pytest.mark.parametrize("name", ["../other", "a/b", "A", "-a", "", "a" * 41])
def test_a_name_is_one_plain_folder(name: str) -> None:
    with pytest.raises(ValidationError, match="lineage"):
        compiled({**command("python", "train.py"), "checkpoints": {"lineage": name}})


def test_a_named_lineage_needs_a_place() -> None:
    assert "TW230" in codes({**command("python", "train.py"), **NAMED, "mounts": None})
    assert "TW230" not in codes({**command("python", "train.py"), "mounts": None})
