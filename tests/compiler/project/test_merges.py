"""Branches of a real git repository: what merges, what is asked after, and that nothing restarts silently."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from tests.compiler.project.test_scope import DIGITS, STDLIB, move_laptop
from tests.compiler.projects import Scratch, assert_ended, files

from trainwright.project.status import last_records

DIGITS_RECORD = "charts/lock/digits-ddp.yaml"
DIGITS_DIST = "dist/laptop/training/runs/digits-ddp.k8s.yaml"
AGAIN_RECORD = "charts/lock/again.yaml"


def commit(few: Scratch) -> None:
    few.git("add", "--all")
    few.git("commit", "--quiet", "--message", "an edit")


def merge(few: Scratch, branch: str, *options: str) -> bool:
    """Whether git merged a branch without a conflict."""
    command = ["git", "-c", "user.name=test", "-c", "user.email=test@example.com", "merge", "--no-edit", *options, branch]
    return subprocess.run(command, cwd=few.root, capture_output=True, check=False).returncode == 0


def add_run(few: Scratch, name: str) -> None:
    few.write(f"charts/runs/{name}.yaml", few.read(DIGITS).replace("run: digits-ddp", f"run: {name}"))


def identities(few: Scratch) -> dict[str, str]:
    """Run -> the identity in the names in ``dist/``, whatever the records say."""
    names = {}
    for path in sorted((few.root / "dist").glob("*/*/runs/*.k8s.yaml")):
        run = path.name.removesuffix(".k8s.yaml")
        names[run] = re.findall(rf"^  name: {run}-([0-9a-z]{{8}})$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[-1]
    return names


def test_two_branches_that_add_neighbouring_runs_merge_without_a_conflict(few: Scratch) -> None:
    for name in ("digits-a", "digits-b"):
        few.git("switch", "--quiet", "--create", name, "main")
        add_run(few, name)
        few.synth()
        commit(few)
    few.git("switch", "--quiet", "main")
    assert merge(few, "digits-a")
    assert merge(few, "digits-b")
    assert_ended(few.run("check"), 0)
    ended = few.run("synth")
    assert ended.stdout == "nothing changed: 6 runs are as in dist/\n"
    assert few.git("status", "--porcelain") == ""


@pytest.fixture
def beside(few: Scratch) -> Scratch:
    """On ``main`` somebody edits a profile and rolls its runs; on ``add`` somebody adds a run with the profile as it was."""
    few.git("switch", "--quiet", "--create", "add")
    add_run(few, "again")
    few.synth()
    commit(few)
    few.git("switch", "--quiet", "main")
    move_laptop(few)
    assert_ended(few.run("roll", "digits-ddp", "stdlib-lm"), 0)
    commit(few)
    return few


@pytest.mark.parametrize("side", ["ours", "theirs"])
def test_a_run_added_beside_an_edit_and_a_roll_restarts_only_when_it_is_rolled(beside: Scratch, side: str) -> None:
    before = identities(beside)
    assert merge(beside, "add", f"--strategy-option={side}")
    assert {name: identity for name, identity in identities(beside).items() if name != "again"} == before
    added = identities(beside)["again"]
    for command in ("check", "synth"):
        assert_ended(beside.run(command), 1, "error TW501", f"would restart: again ({added} → ", "`trainwright roll again`")
    assert_ended(beside.run("synth", "digits-ddp"), 0)
    ended = beside.run("roll", "again")
    assert_ended(ended, 0)
    assert f"replaces {added}" in ended.stdout
    assert {name: identity for name, identity in identities(beside).items() if name != "again"} == before
    assert_ended(beside.run("check"), 0)


@pytest.mark.parametrize("folder", ["charts/lock", "charts/lock and dist"])
def test_a_side_without_the_run_takes_it_for_new_only_where_nothing_of_it_is_left(beside: Scratch, folder: str) -> None:
    """What lost the protection of a single lock: the whole of one side is taken, by somebody who had a conflict elsewhere."""
    assert merge(beside, "add")
    added = identities(beside)["again"]
    for name in folder.split(" and "):
        shutil.rmtree(beside.path(name))
        beside.git("checkout", "HEAD^1", "--", name)
    if "dist" in folder:
        ended = beside.run("synth")
        assert_ended(ended, 0)
        assert ended.stdout.startswith("again: new run "), "and a reviewer sees that its file is another one than on its branch"
        return
    for command in ("check", "synth"):
        ended = beside.run(command)
        assert_ended(ended, 1, f"TW508 again has no record, and dist/laptop/training/runs/again.k8s.yaml has {added}")
    assert_ended(beside.run("roll", "again"), 0)
    assert_ended(beside.run("check"), 0)


@pytest.mark.parametrize(("side", "code"), [("ours", 0), ("theirs", 1)])
def test_both_edit_the_same_run_and_either_side_is_taken(few: Scratch, side: str, code: int) -> None:
    few.git("switch", "--quiet", "--create", "edit")
    few.edit(DIGITS, "base: 2e-3", "base: 3e-3")
    few.synth()
    commit(few)
    few.git("switch", "--quiet", "main")
    move_laptop(few)
    assert_ended(few.run("roll", "digits-ddp", "stdlib-lm"), 0)
    commit(few)
    before = identities(few)
    assert not merge(few, "edit")
    conflicts = few.git("diff", "--name-only", "--diff-filter=U").split()
    assert conflicts == [DIGITS_RECORD, DIGITS_DIST]
    assert_ended(few.run("check"), 1, f"{DIGITS_RECORD}:", "TW506", "merge conflict", f"`git checkout --ours {DIGITS_RECORD}`")
    few.git("checkout", f"--{side}", *conflicts)
    taken = identities(few)["digits-ddp"]
    ended = few.run("synth")
    if side == "ours":  # the record of the profile's side: since it the run's own file was edited
        assert_ended(ended, 0)
        assert f"replaces {taken}; learning rate 2.0e-3 → 3.0e-3; resumes" in ended.stdout
    else:  # the record of the run's side: since it only the profile was edited
        assert_ended(ended, code, "error TW501", f"would restart: digits-ddp ({taken} → ")
        assert identities(few)["digits-ddp"] == taken
        assert_ended(few.run("roll", "digits-ddp"), 0)
    assert identities(few)["stdlib-lm"] == before["stdlib-lm"]
    assert_ended(few.run("check"), 0)


# Each by its own sentence.


def test_a_deleted_record_is_named_and_written_again(few: Scratch) -> None:
    few.path(DIGITS_RECORD).unlink()
    assert_ended(few.run("check"), 1, f"error TW508 {DIGITS_RECORD} is missing; digits-ddp has kept its identity")
    assert_ended(few.run("synth"), 0)
    assert few.git("status", "--porcelain") == ""


def test_a_deleted_record_of_a_run_that_would_restart_is_not_written_again(few: Scratch) -> None:
    few.path(DIGITS_RECORD).unlink()
    before = identities(few)
    move_laptop(few)
    ended = few.run("synth", "--keep-going")
    assert_ended(ended, 1, f"error TW508 digits-ddp has no record, and {DIGITS_DIST} has {before['digits-ddp']} where")
    assert identities(few) == before
    assert not few.path(DIGITS_RECORD).exists()


def test_a_deleted_file_is_named_and_written_again(few: Scratch) -> None:
    few.path(DIGITS_DIST).unlink()
    assert_ended(few.run("check"), 1, f"error TW504 {DIGITS_DIST} is missing")
    ended = few.run("synth")
    assert_ended(ended, 0)
    assert ended.stdout == f"{DIGITS_DIST}: written again, it was missing\n"
    assert few.git("status", "--porcelain") == ""


def test_a_hand_edit_is_named_and_taken_back(few: Scratch) -> None:
    few.edit(DIGITS_DIST, "completions: 2", "completions: 3")
    assert_ended(few.run("check"), 1, f"error TW503 {DIGITS_DIST} was edited by hand", f"edit {DIGITS} instead")
    ended = few.run("synth")
    assert_ended(ended, 0)
    assert ended.stdout == f"{DIGITS_DIST}: restored, it was edited by hand\n"
    assert few.git("status", "--porcelain") == ""


def test_a_conflict_marker_is_named_with_the_record_and_its_line(few: Scratch) -> None:
    text = few.read(DIGITS_RECORD)
    few.write(DIGITS_RECORD, text.replace("record: 1\n", "record: 1\n<<<<<<< HEAD\n=======\n>>>>>>> branch\n"))
    for command in (["check"], ["synth"], ["check", "digits-ddp"]):
        assert_ended(few.run(*command), 1, f"{DIGITS_RECORD}:", "TW506 the record cannot be read: it holds the marks of a merge")
    assert_ended(few.run("check", "stdlib-lm"), 0)


def test_a_record_edited_by_hand_is_stale_and_written_again(few: Scratch) -> None:
    few.edit(DIGITS_RECORD, '  learning_rate: "2.0e-3"', '  learning_rate: "9.0e-3"')
    assert_ended(few.run("check"), 1, "TW502 run digits-ddp changed since dist/ was written")
    assert_ended(few.run("synth"), 0)
    assert few.git("status", "--porcelain") == ""


def test_a_record_of_a_run_that_is_gone_is_removed(few: Scratch) -> None:
    kept = files(few.project.records)
    few.path(STDLIB).unlink()
    assert_ended(few.run("check"), 1, "TW502 charts/lock/stdlib-lm.yaml is the record of something that is gone")
    assert_ended(few.run("synth"), 0)
    assert kept.keys() - files(few.project.records).keys() == {"stdlib-lm.yaml"}
    assert last_records(few.project).runs.keys() == {"digits-ddp", "sdk-train", "xgboost-trainjob"}
