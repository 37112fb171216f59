"""Who saves is one key: plan, facts, drawing and rules speak by it, and claim nothing where nobody says who."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import ValidationError
from tests.compiler.compiling import TODAY
from tests.compiler.example import RUN, Data, codes, command, compiled, findings, script
from tests.compiler.findings.page import overlay, write_example

from trainwright.findings import Finding
from trainwright.page.drawing import drawing
from trainwright.plan.checkpoint import named_in_command
from trainwright.project.build import build_project
from trainwright.project.load import Project, load_sources
from trainwright.report.facts import plan_facts
from trainwright.report.plan import plan_rows
from trainwright.run import Run
from trainwright_trainer.contract import Script

OWN: Data = {"checkpoints": {"by": "own"}}
PROGRAMS = [script("python", "train.py"), command("python", "train.py")]
MOUNTED: list[Data] = [
    {}, {"mounts": None}, {"mounts": {"/checkpoints": None, "/data": {"claim": "checkpoints"}}},
    {"mounts": {"/checkpoints": {"scratch": "1Gi", "claim": None}}}, {"mounts": {"/checkpoints": {"read_only": True}}},
    {"checkpoints": {"lineage": "first"}}, {"checkpoints": {"store": "s3://bucket/x"}},
]
CLAIMS = ("saves no", "step 0", "no checkpoints", "30 min", "30m", "keep", "none")


def row(run: Data) -> str:
    return dict(plan_rows(compiled(run)))["checkpoints"]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("mounts", MOUNTED)
def test_of_an_unknown_one_nothing_is_claimed(program: Data, mounts: Data) -> None:
    run = {**program, **mounts}
    made = compiled(run)
    assert made.plan.saved_by == "unknown"
    assert row(run).startswith("not known")
    assert not any(claim in row(run) for claim in CLAIMS)
    facts = plan_facts(made)
    assert facts["checkpoints.by"] == "unknown"
    assert not facts.keys() & {"checkpoints.every", "checkpoints.keep"}
    assert ", checkpoints" not in drawing(made)
    if made.plan.checkpoint:
        assert (made.plan.checkpoint.every, made.plan.checkpoint.keep, made.plan.checkpoint.size) == (None, None, None)
    assert "save" not in made.plan.grace.reason


@pytest.mark.parametrize("program", PROGRAMS)
def test_who_saves_by_itself_is_said_and_needs_a_place(program: Data) -> None:
    made = compiled({**program, **OWN})
    assert made.plan.saved_by == plan_facts(made)["checkpoints.by"] == "own"
    assert row({**program, **OWN}).startswith(f"{made.plan.checkpoint and made.plan.checkpoint.directory}, by the program itself")
    assert not plan_facts(made).keys() & {"checkpoints.every", "checkpoints.keep"}
    assert ", checkpoints" in drawing(made)
    assert "TW230" in codes({**program, **OWN, "mounts": None})
    assert "TW231" in codes({**program, **OWN, "mounts": {"/checkpoints": {"scratch": "1Gi", "claim": None}}})


@pytest.mark.parametrize("program", PROGRAMS)
def test_who_saves_moves_no_identity(program: Data) -> None:
    assert compiled(program).identity == compiled({**program, **OWN}).identity
    assert compiled().identity == compiled({"checkpoints": {"by": "trainer"}}).identity


def test_our_trainer_saves_what_it_trains() -> None:
    made = compiled()
    assert made.plan.saved_by == "trainer"
    assert "every" in row({})
    assert "checkpoints.by" not in plan_facts(made), "it follows from the workload"
    assert {"checkpoints.every", "checkpoints.keep"} <= plan_facts(made).keys()


@pytest.mark.parametrize(("run", "said"), [
    (OWN, "remove checkpoints.by"),
    ({**PROGRAMS[0], "checkpoints": {"by": "trainer"}}, "write own if"),
    ({**PROGRAMS[1], "checkpoints": {"by": "trainer"}}, "write own if"),
    ({"checkpoints": {"by": "script"}}, "remove checkpoints.by"),
    ({**PROGRAMS[1], "checkpoints": {"by": "script"}}, "make it workload script"),
    ({**PROGRAMS[0], "checkpoints": {"by": "script", "store": "s3://bucket/x"}}, "saves into a claim"),
])  # fmt: skip
def test_a_word_that_does_not_fit_is_refused_with_what_to_write(run: Data, said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        compiled(run)


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("place", [{}, {"mounts": None}])
@pytest.mark.parametrize("often", [{"node_pool": "spot"}])
def test_who_restarts_often_is_asked_whether_it_saves(program: Data, place: Data, often: Data) -> None:
    (finding,) = [one for one in findings({**program, **place, **often}) if one.code == "TW453"]
    assert finding.message.startswith("nobody says whether the program saves, and nodes of pool spot")
    stated = {"mounts": {"/out": {"claim": "checkpoints"}}, "checkpoints": {"by": "own", "mount": "/out"}} if place else OWN
    assert "TW453" not in codes({**program, **often, **place, **stated}), "the fix works"
    assert "TW453" not in codes({**program, **place})


@pytest.mark.parametrize("program", PROGRAMS)
def test_how_long_a_program_saves_is_not_claimed(program: Data) -> None:
    short: Data = {"node_pools": {"spot": {"spot": {"notice": "30s"}}}}
    (finding,) = [one for one in findings({**program, **OWN, "node_pool": "spot"}, short) if one.code == "TW236"]
    assert "save" not in finding.message
    assert "TW236" not in codes({**program, **OWN, "node_pool": "spot", "grace": "30s"}, short), "the fix works"


def test_data_may_be_fetched_where_nobody_says_that_checkpoints_go() -> None:
    data: Data = {
        "mounts": {"/checkpoints": {"read_only": True}},
        "prepare": {"/checkpoints": {"source": "s3://bucket/x", "image": RUN["image"]}},
    }
    assert "TW240" not in codes({**PROGRAMS[1], **data})
    assert "TW240" in codes({**PROGRAMS[1], **data, **OWN, "mounts": {"/checkpoints": {"read_only": False}}})


@pytest.mark.parametrize(("words", "named"), [
    (["torchrun", "t.py", "--output_dir", "/checkpoints/out"], "/checkpoints/out"),
    (["torchrun", "t.py", "--output-dir=/checkpoints/out/"], "/checkpoints/out"),
    (["python", "pretrain.py", "--save", "/checkpoints/gpt", "--load", "/checkpoints/base"], "/checkpoints/gpt"),
    (["python", "t.py", "--job.dump_folder", "/checkpoints/llama"], "/checkpoints/llama"),
    (["python", "t.py", "exp_manager.exp_dir=/checkpoints/nemo"], "/checkpoints/nemo"),
    (["bash", "-c", "cd /app && python t.py --save-dir /checkpoints/a"], "/checkpoints/a"),
    (["bash", "-c", 'python t.py --save-dir "$OUT"'], None),
    (["python", "t.py", "--save-dir", "$(OUT)/a"], None),
    (["python", "t.py", "--resume_from_checkpoint=/checkpoints/a"], None),
    (["python", "t.py", "--output_dir", "/tmp/out"], None),
    (["python", "t.py", "--output_dir", "out"], None),
    (["python", "t.py", "--save_dir", "/checkpoints/a", "--output_dir", "/checkpoints/b"], None),
    (["python", "/checkpoints/t.py"], None),
    (["bash", "-c", "it's broken"], None),
])  # fmt: skip
def test_a_command_may_name_where_its_program_saves(words: list[str], named: str | None) -> None:
    for program in (script(*words), command(*words)):
        assert named_in_command(Run.model_validate(overlay(RUN, {**program, **OWN}))) == named
        assert named_in_command(Run.model_validate(overlay(RUN, program))) is None, "nobody says that it saves"
    assert plan_facts(compiled({**command(*words), **OWN}))["checkpoints"] != named or named


def clashes(root: Path, **runs: Data) -> list[Finding]:
    root = root / "project"
    write_example((), root)
    for name, change in runs.items():
        text = json.dumps(overlay(RUN, change | {"run": name}), indent=1)
        (root / "charts" / "runs" / f"{name}.yaml").write_text(text, encoding="utf-8")
    return [one for one in build_project(load_sources(Project(root)), TODAY).findings if one.code == "TW252"]


def starting(path: str, program: Data = PROGRAMS[1]) -> Data:
    return {**program, "workload": {**program["workload"], "resume_from": path}}


SAVES: Data = {**command("python", "t.py", "--output_dir", "/checkpoints/out"), **OWN}
ELSEWHERE: Data = {"mounts": {"/checkpoints": {"sub_path": "mine"}}}
LINED: Data = {**PROGRAMS[1], "checkpoints": {"lineage": "first"}}


@pytest.mark.parametrize(("runs", "said"), [
    ({"one": SAVES, "two": starting("/checkpoints/out")}, ["directory of run one, which is active"]),
    ({"one": SAVES, "two": starting("/checkpoints/out/step-5", PROGRAMS[0])}, ["directory of run one"]),
    ({"one": SAVES, "two": starting("/checkpoints/other")}, []),
    ({"one": SAVES, "two": starting("/checkpoints")}, []),
    ({"one": {**SAVES, **ELSEWHERE}, "two": starting("/checkpoints/out")}, []),
    ({"one": {**SAVES, **ELSEWHERE}, "two": starting("/checkpoints/mine/out/a")}, ["directory of run one"]),
    ({"one": {**SAVES, "state": "done"}, "two": starting("/checkpoints/out")}, []),
    ({"one": LINED, "two": starting("/checkpoints/one/first")}, ["directory of run one"]),
    ({"one": {**starting("/checkpoints/one/first"), "checkpoints": {"lineage": "first"}}}, ["its own directory"]),
    ({"one": SAVES, "two": SAVES}, ["one and two, both active, save to /checkpoints/out of claim checkpoints"]),
    ({"one": SAVES, "two": {**SAVES, **ELSEWHERE}}, []),
    ({"one": SAVES, "two": {**SAVES, "checkpoints": None}}, ["one and two, both active, save to /checkpoints/out of claim"]),
    ({"one": SAVES, "two": command("bash", "-c", "OUT=/checkpoints; python t.py --save $OUT/out")}, ["both active, save to"]),
    ({"one": SAVES, "two": command("python", "t.py", "--ckpt", "/checkpoints/out/")}, ["both active, save to"]),
    ({"one": SAVES, "two": command("python", "t.py", "--data", "/checkpoints/out/")}, []),
    ({"one": {**PROGRAMS[1], **OWN}, "two": {**PROGRAMS[1], **OWN}}, []),
    ({"one": PROGRAMS[0], "two": PROGRAMS[0]}, []),
])  # fmt: skip
def test_active_runs_keep_out_of_each_others_directories(tmp_path: Path, runs: dict[str, Data], said: list[str]) -> None:
    found = clashes(tmp_path, **runs)
    assert len(found) == len(said)
    for one, words in zip(found, said, strict=True):
        assert words in one.message
        assert one.where.line


def test_a_run_starts_from_no_directory_of_our_trainer(tmp_path: Path) -> None:
    planned = compiled({"run": "one"}).plan.checkpoint
    assert planned is not None
    (found,) = clashes(tmp_path, one={}, two=starting(f"{planned.directory}/step-10.abcd"))
    assert "write `state: done` in one first" in found.fix


def test_fields_of_our_saves_are_not_for_others() -> None:
    (finding,) = [one for one in findings({**PROGRAMS[1], "checkpoints": {"by": "own", "every": "10m"}}) if one.code == "TW207"]
    assert "does not read checkpoints.every" in finding.message


def test_a_script_that_saves_through_our_library() -> None:
    """The plan claims what the supervisor keeps, and its specification says so to it."""
    program = script("python", "train.py")
    run = {**program, "workload": {**program["workload"], "config": {"lr": 0.1}}, "checkpoints": {"by": "script", "keep": 5}}
    made = compiled(run)
    assert made.plan.saved_by == "script"
    kept = {"SIGTERM save", "resume from what the script committed", "hangs and metrics by the script's steps"}
    assert kept <= set(made.plan.guarantees)
    assert not kept & set(compiled(program).plan.guarantees)
    assert not (kept - {"SIGTERM save"}) & set(compiled().plan.guarantees)
    assert "when the script commits, 5 of them stay" in dict(plan_rows(made))["checkpoints"]
    spec = made.resolution.spec
    assert spec is not None
    work = spec.work
    assert isinstance(work, Script)
    assert work.checkpoints is not None
    assert (work.checkpoints.keep, work.config) == (5, {"lr": 0.1})
    assert "TW207" in codes({**run, "checkpoints": {"by": "script", "every": "10m"}})
    assert "TW207" not in codes(run)
