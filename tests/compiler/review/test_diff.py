"""`trainwright diff` on a real git repository: each edit is classed by what it does to training."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.compiler.projects import Scratch, assert_ended, scratch

from trainwright.review.markdown import LIMIT

CLASSES = {
    "llama-1b-ddp": "replaced",
    "own-script": "replaced",
    "spot-resnet": "replaced",
    "gang-scheduled-training": "replaced",
    "roce-tuning": "replaced",
    "resnet-train": "replaced",
    "vit-horovod": "retired",
    "hostnetwork-ddp": "data-at-risk",
    "llama-finetune": "cosmetic",
}


def said(here: Scratch, *arguments: str) -> dict[str, Any]:
    ended = here.run("diff", *arguments, "--format", "json")
    assert_ended(ended, 0)
    answer: dict[str, Any] = json.loads(ended.stdout)
    return answer


@pytest.fixture(scope="module")
def answer(edited: Scratch) -> dict[str, Any]:
    return said(edited)


def run_of(answer: dict[str, Any], name: str) -> dict[str, Any]:
    (run,) = [one for one in answer["runs"] if one["run"] == name]
    return dict(run)


def facts(run: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    return {one["key"]: (one["before"], one["after"]) for one in run["facts"]}


# The ten edits.


def test_each_edit_is_classed_by_what_it_does(answer: dict[str, Any]) -> None:
    assert {run["run"]: run["class"] for run in answer["runs"] if run["run"] in CLASSES} == CLASSES
    others = {run["run"]: run for run in answer["runs"] if run["run"] not in CLASSES}
    assert all(run["class"] == "cosmetic" and run["cause"] == "profile h100-ib" for run in others.values())
    assert answer["notes"] == []


def test_an_edit_of_the_rate_changes_twelve_lines_of_what_is_applied(edited: Scratch) -> None:
    """Two of the plan above the objects, the rate itself, and the nine places where Kubernetes needs the new job's name."""
    path = "dist/h100-ib/training/runs/llama-1b-ddp.k8s.yaml"
    changed = edited.git("diff", "--unified=0", "main", "edits", "--", path).splitlines()
    lines = [line for line in changed if line.startswith("+") and not line.startswith("+++")]
    assert len(lines) == 12
    assert sum("llama-1b-ddp-" in line for line in lines) == 9
    assert [line.split(":")[0].strip("+# \"") for line in lines if "llama-1b-ddp-" not in line] == [
        "learning rate", "learning rate base", "peak",
    ]


def test_each_edit_says_what_becomes_of_the_training(answer: dict[str, Any]) -> None:
    """Whoever reads nothing else learns whether the steps so far are kept."""
    assert {run["run"]: run["training"] for run in answer["runs"] if run["run"] in CLASSES} == {
        "llama-1b-ddp": "goes on from its last checkpoint",
        "spot-resnet": "goes on from its last checkpoint",
        "resnet-train": "goes on from its last checkpoint",
        "own-script": "goes on, if its program finds its checkpoints",
        "gang-scheduled-training": "goes on, if its program finds its checkpoints",
        "hostnetwork-ddp": "goes on or begins anew, which is not known: nobody says who saves",
        "roce-tuning": "starts at step 0, unless its checkpoints are there",
        "vit-horovod": "ends",
        "llama-finetune": "goes on",
    }
    assert "is stopped: it has 60 s to save;" in run_of(answer, "llama-1b-ddp")["outcome"]
    assert "its checkpoints stay" in run_of(answer, "vit-horovod")["outcome"]
    queue = run_of(answer, "gang-scheduled-training")
    assert f"`checkpoints: {{lineage: {queue['identity']['before']}}}` in its file before the merge" in queue["outcome"]


def test_a_rate_is_said_before_and_after_and_the_run_resumes(answer: dict[str, Any]) -> None:
    run = run_of(answer, "llama-1b-ddp")
    assert facts(run) == {"learning_rate": ("4.24264e-4", "2.82843e-4"), "learning_rate.base": ("3.0e-4", "2.0e-4")}
    assert "resumes from the last checkpoint of lineage ht84sz92" in run["outcome"]
    assert [one["path"] for one in run["fields"] if one["object"].startswith("ConfigMap llama-1b-ddp-")] == [
        'data["run.json"]:work.learning_rate.peak'
    ]
    assert run["estimates"] == {}, "none of them follows from the rate"


def test_nodes_are_said_as_gpus(answer: dict[str, Any]) -> None:
    run = run_of(answer, "own-script")
    assert run["gpus"] == {"before": 16, "after": 32}
    assert facts(run)["nodes"] == (2, 4)
    assert "its program resumes if it finds checkpoints in own-script/" in run["outcome"]
    assert "step 0" not in run["outcome"], "nobody knows what a script can resume from"


def test_an_image_a_queue_and_an_override_are_said(answer: dict[str, Any]) -> None:
    assert facts(run_of(answer, "spot-resnet")).keys() == {"image"}
    assert facts(run_of(answer, "gang-scheduled-training"))["queue"] == ("research", "default")
    override = run_of(answer, "resnet-train")
    assert facts(override) == {"overrides.pod.worker.priorityClassName": (None, "training-high")}
    assert [one["path"] for one in override["fields"]] == ["spec.tfReplicaSpecs.Worker.template.spec.priorityClassName"]


def test_a_run_that_moves_looks_for_its_checkpoints_elsewhere(answer: dict[str, Any]) -> None:
    run = run_of(answer, "roce-tuning")
    assert facts(run)["cluster"] == ("roce-h200", "trainer-h100")
    assert "its checkpoints stay in roce-tuning/" in run["outcome"]
    assert " on roce-h200, namespace training, and nothing copies them" in run["outcome"]
    there = "roce-tuning/99kp7drn of claim checkpoints on trainer-h100, namespace research"
    assert f"them to {there} before it starts" in run["outcome"]


def test_what_the_alerts_know_of_a_run_comes_and_goes_with_it(answer: dict[str, Any]) -> None:
    fields = {one["title"]: [field["path"] for field in one["fields"]] for one in answer["shared"]}
    assert fields["foundation kubeflow-a100/training"] == ["spec.groups[trainwright.runs].rules[vit-horovod]"]
    assert "spec.groups[trainwright.runs].rules[roce-tuning]" in fields["foundation trainer-h100/research"]


def test_a_label_restarts_nothing(answer: dict[str, Any]) -> None:
    run = run_of(answer, "llama-finetune")
    assert run["identity"]["before"] == run["identity"]["after"]
    assert facts(run) == {"labels.example.com/cost": (None, "shared")}


def test_a_claim_that_goes_is_data_at_risk_and_names_its_run(answer: dict[str, Any]) -> None:
    words = "the storage training-checkpoints is no longer described here: the cluster keeps it and its data"
    assert words in run_of(answer, "hostnetwork-ddp")["outcome"]
    (risky,) = [one for one in answer["shared"] if one["risk"]]
    assert risky["title"] == "foundation kubeflow-a100/training-host"
    assert risky["runs"] == ["hostnetwork-ddp"]


def test_an_edit_of_alerts_is_said_once_of_the_profile(answer: dict[str, Any]) -> None:
    (profile,) = [one for one in answer["shared"] if one["title"] == "profile h100-ib"]
    assert profile["facts"] == [{
        "key": "monitoring/rule_labels/release", "label": "monitoring/rule_labels/release",
        "before": "prometheus", "after": "alerts",
    }]
    assert profile["effect"] == "What is said of the cluster h100-ib. By itself, this edit restarts no run."


def test_no_field_carries_an_identity(answer: dict[str, Any]) -> None:
    for run in answer["runs"]:
        identities = [one for one in run["identity"].values() if one]
        assert not [one for one in run["fields"] if any(identity in json.dumps(one) for identity in identities)]


# What follows from facts, and findings.


@pytest.fixture(scope="module")
def warned(tmp_path_factory: pytest.TempPathFactory) -> Scratch:
    """A branch where one run gets a warning, and a script a deadline."""
    here = scratch(tmp_path_factory.mktemp("findings") / "project")
    here.git("checkout", "--quiet", "-b", "warned")
    here.edit("charts/runs/llama-1b-ddp.yaml", "scaling: square_root", "scaling: linear")
    here.edit("charts/runs/llama-1b-ddp.yaml", "accumulation: 2", "accumulation: 4")
    here.edit("charts/runs/own-script.yaml", "team:", "deadline: 1d\nteam:")
    here.synth()
    here.git("add", "--all")
    here.git("commit", "--quiet", "--message", "a warning")
    return here


def test_findings_are_new_on_one_way_and_gone_on_the_other(warned: Scratch) -> None:
    code = {"code": "TW203", "title": "linear scaling with Adam"}
    there, back = said(warned, "main", "warned"), said(warned, "warned", "main")
    assert run_of(there, "llama-1b-ddp")["codes"] == [{**code, "before": None, "after": "warning"}]
    assert run_of(back, "llama-1b-ddp")["codes"] == [{**code, "before": "warning", "after": None}]
    assert "  gone: warning TW203: linear scaling with Adam" in warned.run("diff", "warned", "main").stdout
    comment = warned.run("diff", "warned", "main", "--format", "markdown").stdout
    assert "- `gone: warning TW203`: `linear scaling with Adam`" in comment


def test_a_new_finding_has_its_message_where_the_head_is_compiled(warned: Scratch) -> None:
    (line,) = [line for line in warned.run("diff", "main").stdout.splitlines() if "TW203" in line]
    assert line == "  new warning TW203: linear scaling with AdamW overshoots at large batches", "the message, not the title"


def test_tokens_and_gpu_hours_follow_from_facts(warned: Scratch) -> None:
    answer = said(warned, "main", "warned")
    llama = facts(run_of(answer, "llama-1b-ddp"))
    assert llama["tokens_a_step"] == ("1,048,576", "2,097,152")
    assert llama["tokens"] == ("20,993,540,096", "20,994,588,672")
    assert facts(run_of(answer, "own-script"))["gpu_hours"] == (None, "at most 384")


def test_a_record_of_an_older_release_says_nothing_of_findings(warned: Scratch, tmp_path: Path) -> None:
    warned.git("worktree", "add", "--quiet", "--detach", str(tmp_path / "base"), "main")
    try:
        record = tmp_path / "base" / "charts" / "lock" / "llama-1b-ddp.yaml"
        text = record.read_text(encoding="utf-8")
        record.write_text(text[:text.index("findings:")], encoding="utf-8")
        assert run_of(said(warned, str(tmp_path / "base"), "warned"), "llama-1b-ddp")["codes"] == []
    finally:
        warned.git("worktree", "remove", "--force", str(tmp_path / "base"))


# Sides.


def test_revisions_folders_and_the_working_tree_say_the_same(edited: Scratch, answer: dict[str, Any], tmp_path: Path) -> None:
    edited.git("worktree", "add", "--quiet", "--detach", str(tmp_path / "base"), "main")
    try:
        for arguments in (("main", "edits"), (str(tmp_path / "base"),), (str(tmp_path / "base"), "edits"), ("main", ".")):
            other = said(edited, *arguments)
            assert [{**run, "findings": [], "estimates": {}} for run in other["runs"]] == [
                {**run, "findings": [], "estimates": {}} for run in answer["runs"]
            ]
            assert other["shared"] == answer["shared"]
    finally:
        edited.git("worktree", "remove", "--force", str(tmp_path / "base"))


def test_backwards_a_retired_run_is_new(edited: Scratch) -> None:
    back = said(edited, "edits", "main")
    assert run_of(back, "vit-horovod")["class"] == "new"
    assert run_of(back, "own-script")["gpus"] == {"before": 32, "after": 16}


def test_nothing_changed_is_one_line(edited: Scratch) -> None:
    ended = edited.run("diff", "edits")
    assert_ended(ended, 0)
    assert ended.stdout == "edits -> the working tree: no run changes\n"


def test_nothing_of_the_base_is_imported_or_compiled(edited_copy: Scratch) -> None:
    here = edited_copy
    here.git("checkout", "--quiet", "main")
    trap = here.root / "trapped"
    here.write("charts/runs/torchrun_command.py", f"open({str(trap)!r}, 'w')\nraise SystemExit(9)\n")
    here.write("charts/clusters/laptop.yaml", "not: a profile\n")
    here.git("commit", "--quiet", "--all", "--message", "a base that does not compile")
    assert said(here, "main", "edits")["counts"]["replaced"] == 6
    assert not trap.exists()


def test_an_edit_without_a_synth_and_an_edit_by_hand_are_said(edited_copy: Scratch) -> None:
    here = edited_copy
    here.edit("charts/runs/digits-ddp.yaml", "base: 2e-3", "base: 1e-3")
    here.edit("dist/laptop/training/runs/stdlib-lm.k8s.yaml", "completions: 2", "completions: 3")
    answer = said(here, "edits")
    assert answer["runs"] == []
    assert [note.split(" ")[0] for note in answer["notes"]] == ["charts/runs/digits-ddp.yaml"]
    (by_hand,) = answer["shared"]
    assert by_hand["title"].startswith("dist/laptop/training/runs/stdlib-lm.k8s.yaml, edited by hand")
    assert [(one["path"], one["before"], one["after"]) for one in by_hand["fields"]] == [("spec.completions", "2", "3")]


def test_a_held_run_is_said_with_its_reason(edited_copy: Scratch) -> None:
    here = edited_copy
    here.edit("charts/clusters/laptop.yaml", "    memory: 16Gi\n", "    memory: 16Gi\n    labels: {pool: new}\n")
    for command in (("hold", "digits-ddp", "--reason", "until @everyone has seen it"), ("roll", "shell-script", "stdlib-lm")):
        assert_ended(here.run(*command), 0)
    answer = said(here, "edits")
    classes = {"digits-ddp": "held", "shell-script": "replaced", "stdlib-lm": "replaced"}
    assert {run["run"]: run["class"] for run in answer["runs"]} == classes
    assert run_of(answer, "stdlib-lm")["cause"] == "profile laptop"
    assert "until @everyone has seen it" in run_of(answer, "digits-ddp")["outcome"]
    (profile,) = answer["shared"]
    assert profile["title"] == "profile laptop"
    assert profile["effect"] == "What is said of the cluster laptop. This edit restarts 2 runs."
    assert "stdlib-lm" in profile["runs"]
    ended = here.run("diff", "edits", "--format", "markdown")
    (line,) = [line for line in ended.stdout.splitlines() if "@everyone" in line]
    assert line.startswith("`")
    assert line.endswith("`"), "a code span mentions nobody"


# Formats and gates.


def test_the_text_names_each_run_with_what_happens(edited: Scratch) -> None:
    ended = edited.run("diff")
    assert_ended(ended, 0)
    starts = "training goes on, if its program finds its checkpoints"
    assert f"own-script: replaces a running job; {starts}\n" in ended.stdout
    assert "  GPUs: 16 -> 32\n" in ended.stdout
    assert "hostnetwork-ddp: DATA AT RISK; training goes on or begins anew, which is not known: nobody says who" in ended.stdout


@pytest.mark.parametrize(("gate", "code"), [("new", 0), ("data-at-risk", 1), ("retired", 1)])
def test_a_gate_ends_with_1_where_a_run_is_of_its_class(edited: Scratch, gate: str, code: int) -> None:
    assert_ended(edited.run("diff", "--fail-on", gate), code)


def test_markdown_fits_a_comment_and_says_what_it_cut(edited: Scratch) -> None:
    from trainwright.review import git_side, review
    from trainwright.review.markdown import markdown

    whole = edited.run("diff", "main", "edits", "--format", "markdown").stdout
    assert len(whole.encode()) < LIMIT
    assert "Cut" not in whole
    starts = "goes on, if its program finds its checkpoints"
    assert f"| `own-script` | **replaces a running job** | {starts} | 16 → 32 |" in whole
    found = review(git_side(edited.root, "main"), git_side(edited.root, "edits"))
    for limit in (1_500, 3_000, 6_000, 9_000):
        short = markdown(found, limit)
        assert len(short.encode()) <= limit
        assert "**Cut, since a comment takes" in short
        assert short.count("<details>") == short.count("</details>")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("no-such-revision",), 2, "there is no revision no-such-revision"),
        (("--", "--output=here"), 2, "there is no revision --output=here"),
        (("charts",), 2, "charts is neither a revision of this repository nor a folder with charts/"),
    ],
)
def test_a_side_that_is_none_is_one_message(edited: Scratch, arguments: tuple[str, ...], code: int, words: str) -> None:
    ended = edited.run("diff", *arguments)
    assert_ended(ended, code, words)
    assert ended.stderr.count("\n") == 1


def test_git_says_itself_what_keeps_it_from_an_answer(
    edited: Scratch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = "fatal: detected dubious ownership in repository at '/x'\n\n\tgit config --global --add safe.directory /x"
    git = tmp_path / "git"
    git.write_text(f'#!/bin/sh\necho "{words}" >&2\nexit 128\n')
    git.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    said = "dubious ownership in repository at '/x' git config --global --add safe.directory /x\n"
    for arguments in ((), ("main",)):
        assert_ended(edited.run("diff", *arguments), 2, said)
    assert_ended(edited.run("diff", ".", "."), 0)


def test_a_history_that_is_not_there_has_to_be_fetched(edited: Scratch, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    edited.git("clone", "--quiet", "--depth", "1", "--no-single-branch", "--branch", "edits", f"file://{edited.root}", str(mine))
    ended = Scratch(mine).run("diff")
    assert_ended(ended, 2, "there is no common commit with origin/main; in CI, fetch the history (`fetch-depth: 0`)")


def test_a_project_in_a_folder_of_its_repository(edited: Scratch, answer: dict[str, Any], tmp_path: Path) -> None:
    here = Scratch(tmp_path / "repository")
    here.root.mkdir()
    here.git("init", "--quiet")
    for revision in ("main", "edits"):
        (here.root / "teams" / "nlp").mkdir(parents=True, exist_ok=True)
        here.git("rm", "-r", "--quiet", "--ignore-unmatch", ".")
        for name in ("charts", "dist"):
            here.git("clone", "--quiet", "--branch", revision, str(edited.root), f".{name}-{revision}")
            (here.root / "teams" / "nlp").mkdir(parents=True, exist_ok=True)
            (here.root / f".{name}-{revision}" / name).rename(here.root / "teams" / "nlp" / name)
        here.git("add", "teams")
        here.git("commit", "--quiet", "--message", revision)
    inside = Scratch(here.root / "teams" / "nlp")
    assert {run["run"]: run["class"] for run in said(inside, "HEAD~", "HEAD")["runs"]} == {
        run["run"]: run["class"] for run in answer["runs"]
    }
