"""A run that is paused leaves ``dist/``, keeps its record and its foundation, and comes back as it was."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.compiler.projects import Scratch, assert_ended

from trainwright.findings import CompileError
from trainwright.project.scope import obstacles
from trainwright.project.state import EditError, with_state
from trainwright.project.status import compare, last_records

DIGITS = "charts/runs/digits-ddp.yaml"
TRAIN_JOB = "charts/runs/xgboost-trainjob.yaml"


def check(here: Scratch) -> list[str]:
    build, records = here.build(), last_records(here.project)
    return [str(one.message) for one in (*obstacles(here.project, build, records).all, *compare(here.project, build, records))]


def test_a_run_that_was_paused_comes_back_byte_for_byte(few: Scratch) -> None:
    before = few.dist()
    file = few.read(TRAIN_JOB)
    assert_ended(few.run("pause", "xgboost-trainjob"), 0, f"git add {TRAIN_JOB} charts/lock dist")
    assert check(few)[0] == "run xgboost-trainjob is paused and still in dist/"
    ended = few.run("synth")
    identity = last_records(few.project).runs["xgboost-trainjob"].identity
    assert ended.stdout == (
        f"xgboost-trainjob: paused, {identity} leaves dist/ until it is active again: its job is stopped if it still runs; "
        "its checkpoints stay\n"
    )
    gone = set(before) - set(few.dist())
    assert gone == {"trainer-h100/research/runs/xgboost-trainjob.k8s.yaml"}
    assert all(before[path] == text for path, text in few.dist().items()), "its runtime and its alerts stay in the foundation"
    assert last_records(few.project).runs["xgboost-trainjob"].state == "paused"
    assert check(few) == []
    assert_ended(few.run("list"), 0)
    assert f"paused as xgboost-trainjob-{identity}" in few.run("list").stdout
    assert_ended(few.run("hold", "xgboost-trainjob"), 2, "is paused, and not in dist/")
    assert_ended(few.run("rehearse", "xgboost-trainjob"), 2, "is paused and not in dist/")

    assert_ended(few.run("resume", "xgboost-trainjob"), 0, 'git commit -m "Resume xgboost-trainjob"')
    assert few.read(TRAIN_JOB) == file
    assert few.run("synth").stdout == f"xgboost-trainjob: {identity} is back; resumes from lineage " + (
        f"{last_records(few.project).runs['xgboost-trainjob'].facts['checkpoints.lineage']}\n"
    )
    assert few.dist() == before
    assert few.git("status", "--porcelain") == ""


def test_the_last_run_of_a_namespace_may_wait(few: Scratch) -> None:
    for run in ("digits-ddp", "stdlib-lm"):
        few.run("pause", run)
        few.run("synth", run)
    assert check(few) == []
    assert few.path("dist/laptop/training/runs/.gitkeep").is_file()
    assert few.path("dist/laptop/training/foundation/training.k8s.yaml").is_file()


def test_a_paused_run_that_would_be_another_one_restarts_nothing_and_says_so(few: Scratch) -> None:
    few.run("pause", "digits-ddp", "stdlib-lm")
    few.synth()
    few.edit("charts/clusters/laptop.yaml", "cpus: ", "cpus: 1")
    few.synth()
    few.run("resume", "digits-ddp")
    few.edit(DIGITS, "epochs: 30", "epochs: 31")
    assert ": new run " in few.run("synth").stdout
    assert last_records(few.project).runs["stdlib-lm"].state == "paused"
    assert check(few) == []


def test_a_hold_goes_on_while_a_run_is_paused(few: Scratch) -> None:
    few.edit("charts/clusters/laptop.yaml", "memory: 16Gi", "memory: 8Gi")
    few.write("charts/clusters/laptop.yaml", few.read("charts/clusters/laptop.yaml") + "node_lost: 90s\n")
    before = few.dist()
    assert_ended(few.run("hold", "digits-ddp", "stdlib-lm"), 0)
    few.synth()
    few.run("pause", "digits-ddp")
    few.synth()
    assert few.path("charts/held/digits-ddp.yaml").is_file()
    few.edit("charts/clusters/laptop.yaml", "node_lost: 90s", "node_lost: 120s")
    few.synth()
    few.run("resume", "digits-ddp")
    few.synth()
    assert few.dist() == before
    assert check(few) == []


def hold_digits(few: Scratch) -> None:
    few.write("charts/clusters/laptop.yaml", few.read("charts/clusters/laptop.yaml") + "node_lost: 90s\n")
    assert_ended(few.run("hold", "digits-ddp", "stdlib-lm"), 0)
    few.synth()
    few.run("pause", "digits-ddp")


def test_a_held_run_is_not_paused_together_with_what_it_is_held_against(few: Scratch) -> None:
    hold_digits(few)
    few.edit("charts/clusters/laptop.yaml", "node_lost: 90s", "node_lost: 120s")
    assert_ended(few.run("synth"), 1, "TW513")
    assert few.path("charts/held/digits-ddp.yaml").is_file()


def test_an_edit_of_a_paused_run_ends_its_hold(few: Scratch) -> None:
    hold_digits(few)
    few.edit(DIGITS, "epochs: 30", "epochs: 31")
    few.synth()
    assert not few.path("charts/held/digits-ddp.yaml").exists()
    assert last_records(few.project).runs["digits-ddp"].hold is None
    assert check(few) == []


def test_what_has_ended_is_neither_paused_nor_resumed(few: Scratch) -> None:
    assert_ended(few.run("retire", "digits-ddp"), 0, 'git commit -m "Retire digits-ddp"')
    few.synth()
    for command in ("pause", "resume"):
        assert_ended(few.run(command, "digits-ddp"), 2, "`attempt: 2`")
    assert_ended(few.run("retire", "digits-ddp"), 0, "digits-ddp is done already")
    few.edit(DIGITS, "state: done", "state: paused")
    with pytest.raises(CompileError) as caught:
        few.synth()
    assert [one.code for one in caught.value.findings] == ["TW517"]
    assert caught.value.findings[0].where.pointer == "/state"


def test_a_pause_and_its_end_are_reviewed(few: Scratch) -> None:
    few.run("pause", "digits-ddp")
    few.synth()
    assert_ended(few.run("diff", "main"), 0)
    said = few.run("diff", "main").stdout
    assert "digits-ddp: paused; training waits" in said
    assert "is stopped: it has 60 s to save, and nothing starts until it is active again; its checkpoints stay" in said
    few.git("commit", "--quiet", "--all", "--message", "pause")
    few.run("resume", "digits-ddp")
    few.synth()
    said = few.run("diff", "HEAD").stdout
    assert "digits-ddp: resumed; training goes on from its last checkpoint" in said
    assert "starts again on 2 CPU ranks of laptop; it resumes from the last checkpoint of lineage" in said
    assert_ended(few.run("diff", "HEAD", "--fail-on", "resumed"), 1)
    few.run("retire", "digits-ddp")
    few.synth()
    assert "digits-ddp" not in few.run("diff", "HEAD").stdout, "it was paused there: nothing stops"


@pytest.mark.parametrize(
    ("text", "state", "expected"),
    [
        ("run: a  # ours\nteam: x\n", "paused", "run: a  # ours\nstate: paused\nteam: x\n"),
        ("team: x\nrun: a", "paused", "team: x\nrun: a\nstate: paused\n"),
        ("# head\r\nrun: a\r\nteam: x\r\n", "done", "# head\r\nrun: a\r\nstate: done\r\nteam: x\r\n"),
        ("run: a\nstate: paused  # till May\nteam: x\n", "active", "run: a\nstate: active  # till May\nteam: x\n"),
        ("run: a\nstate: 'paused'\nteam: x\n", "done", "run: a\nstate: done\nteam: x\n"),
        ('"state" : "active"\nrun: a\n', "paused", '"state" : paused\nrun: a\n'),
        ("team: x\nrun: a\nstate: paused\n", "active", "team: x\nrun: a\n"),
        ("\ufeffrun: a\nteam: x\n", "paused", "\ufeffrun: a\nstate: paused\nteam: x\n"),
        ("{run: a, state: active, team: x}\n", "paused", "{run: a, state: paused, team: x}\n"),
        ("---\nrun: a\nfiles: {x: 'state: active'}\n", "paused", "---\nrun: a\nstate: paused\nfiles: {x: 'state: active'}\n"),
    ],
)
def test_one_line_of_a_file_changes(tmp_path: Path, text: str, state: str, expected: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(text.encode())
    assert with_state(path, "a.yaml", state).decode() == expected


@pytest.mark.parametrize("text", ["{run: a, team: x}\n", "run:\n  a\nteam: x\n", "run: a\nstate:\n  active\nteam: x\n"])
def test_another_form_is_left_to_its_author(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(text)
    with pytest.raises(EditError, match="write `state: paused` into it"):
        with_state(path, "a.yaml", "paused")


def test_a_module_is_left_to_its_author(few: Scratch) -> None:
    few.write("charts/runs/again.py", (
        "from pathlib import Path\nfrom trainwright import load_run\n"
        "RUN = load_run(Path(__file__).with_name('digits-ddp.yaml')).model_copy(update={'run': 'again'})\n"
    ))
    ended = few.run("pause", "digits-ddp", "again")
    assert_ended(ended, 2, 'charts/runs/again.py is Python, which nobody else edits: give its Run `state="paused"`')
    assert "state" not in few.read(DIGITS), "all or none"
