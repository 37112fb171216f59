"""Defaults in a project: what moves, who is told the cause, and who is named where one is wrong."""

from __future__ import annotations

import json

import yaml
from tests.compiler.projects import Scratch, assert_ended

from trainwright import load_run

TWICE = """\
from trainwright import load_run
BASE = load_run("charts/runs/digits-ddp.yaml")
RUNS = (BASE.model_copy(update={"run": f"twice-{each}"}) for each in "ab")
"""
OPAQUE = """\
run: opaque
team: vision
namespace: training
cluster: laptop
image: registry.example.com/trainwright/x:1
topology: {kind: ddp, nodes: 1, gpus_per_node: 0}
workload: {kind: command, command: [torchrun, /app/train.py]}
security: {user: 1000}
"""
DIGITS = "charts/runs/digits-ddp.yaml"
DEFAULTS = "charts/defaults.yaml"
IMAGE = (
    "registry.example.com/trainwright/trainer@sha256:bca6d13be098a4938d4194efe11cd5bb14289e796daff1392373572e047a35a8"
)


def test_what_moves_from_a_run_into_the_defaults_moves_no_identity(few: Scratch) -> None:
    before = few.dist()
    few.write(DEFAULTS, f"all:\n  image: {IMAGE}\n  team: vision\nclusters:\n  laptop: {{namespace: training}}\n")
    for line in ("team: vision", "namespace: training", f"image: {IMAGE}"):
        few.edit(DIGITS, f"{line}\n", "")
    assert_ended(few.run("synth"), 0)
    assert few.dist() == before
    record = yaml.safe_load(few.read("charts/lock/digits-ddp.yaml"))
    assert record["defaults"] == {"image": IMAGE, "team": "vision", "namespace": "training"}
    assert "defaults" not in yaml.safe_load(few.read("charts/lock/stdlib-lm.yaml")), "it says all of that itself"
    assert_ended(few.run("check"), 0)
    plan = few.run("plan", "digits-ddp").stdout
    assert f"team from {DEFAULTS}:3, namespace from {DEFAULTS}:5" in plan.replace("image from charts/defaults.yaml:2, ", "")
    assert json.loads(few.run("plan", "digits-ddp", "--json").stdout)["defaults"]["team"] == f"{DEFAULTS}:3"
    assert "defaults" not in json.loads(few.run("plan", "stdlib-lm", "--json").stdout)
    lines = few.run("explain", "dist/laptop/training/runs/digits-ddp.k8s.yaml").stdout
    assert f"({DEFAULTS}:2:3)" in lines


def test_an_edit_of_a_default_is_told_once_with_both_ways_out(few: Scratch) -> None:
    few.write(DEFAULTS, "all:\n  env: {HF_HOME: /tmp/cache}\n  labels: {owner: platform}\n")
    ended = few.run("synth")
    assert_ended(ended, 1, f"{DEFAULTS}:2:9: error TW501 {DEFAULTS}: env/HF_HOME (nothing) → /tmp/cache", "the environment of",
                 "trainwright roll digits-ddp", "trainwright hold digits-ddp")
    assert ended.stderr.count("TW501") == 1
    assert_ended(few.run("hold", "digits-ddp"), 0)
    held = few.read("dist/laptop/training/runs/digits-ddp.k8s.yaml")
    assert_ended(few.run("roll", "stdlib-lm", "sdk-train", "xgboost-trainjob"), 0)
    assert_ended(few.run("synth"), 0)
    assert few.read("dist/laptop/training/runs/digits-ddp.k8s.yaml") == held
    assert_ended(few.run("check"), 0)
    few.write(DEFAULTS, "all:\n  env: {HF_HOME: /tmp/other}\n  labels: {owner: platform}\n")
    assert_ended(few.run("check"), 1, f"{DEFAULTS}: env/HF_HOME /tmp/cache → /tmp/other changes the environment of 3 runs")
    few.path(DEFAULTS).unlink()
    assert_ended(few.run("check"), 1, f"{DEFAULTS}: error TW501 {DEFAULTS}: env/HF_HOME /tmp/cache → (nothing)")


def test_a_held_run_that_is_edited_with_its_defaults_waits_for_a_decision(few: Scratch) -> None:
    few.write(DEFAULTS, "teams:\n  vision: {env: {HF_HOME: /tmp/cache}}\n")
    assert_ended(few.run("hold", "digits-ddp"), 0)
    assert_ended(few.run("synth"), 0)
    few.write(DEFAULTS, "teams:\n  vision: {env: {HF_HOME: /tmp/other}}\n")
    few.edit(DIGITS, "base: 2e-3", "base: 3e-3")
    assert_ended(few.run("check"), 1, "TW513", "changed together with its profile, with defaults or with Trainwright")


def test_labels_of_defaults_restart_nothing(few: Scratch) -> None:
    few.write(DEFAULTS, "all: {labels: {owner: platform}}\n")
    ended = few.run("synth")
    assert_ended(ended, 0)
    assert "digits-ddp: " in ended.stdout
    assert "stays, changed in place" in ended.stdout
    assert_ended(few.run("check"), 0)


def test_a_default_that_is_wrong_is_one_error_and_takes_nothing_away(few: Scratch) -> None:
    before = few.dist()
    few.write(DEFAULTS, "all:\n  restart: 3\n")
    for command in (("check",), ("synth",), ("synth", "--keep-going"), ("plan", "digits-ddp"), ("synth", "digits-ddp")):
        ended = few.run(*command)
        assert_ended(ended, 1, f"{DEFAULTS}:2:3: error TW105", "did you mean `restarts`?")
        assert ended.stderr.count(" error ") == 1, ended.stderr
    few.write(DEFAULTS, "all:\n  image: registry.example.com/trainer:latest\n  grace: 5m\n")
    assert few.run("check").stderr.count(" error ") == 1
    assert few.dist() == before


def test_what_only_the_compiler_refuses_of_a_default_is_one_error_too(few: Scratch) -> None:
    few.write(DEFAULTS, "all:\n  security: {privileged: true}\n")
    ended = few.run("check")
    assert ended.returncode == 1
    assert ended.stderr.count(f"{DEFAULTS}:2:14: error TW604") == 1, ended.stderr


def test_defaults_of_nobody_are_an_error(few: Scratch) -> None:
    few.write(DEFAULTS, "clusters:\n  laptops: {restarts: 3}\nnamespaces:\n  trainings: {restarts: 3}\n")
    ended = few.run("check")
    assert_ended(ended, 1, f"{DEFAULTS}:2:3: error TW110", "did you mean laptop?")
    assert_ended(ended, 1, f"{DEFAULTS}:4:3: error TW303", "did you mean training?")
    few.path(DEFAULTS).rename(few.path("charts/defaults.yml"))
    assert_ended(few.run("check"), 1, "charts/defaults.yml: error TW101", "rename it to defaults.yaml")


def test_a_new_run_has_the_defaults_from_its_first_plan(few: Scratch) -> None:
    few.write(DEFAULTS, "clusters:\n  laptop: {env: {HF_HOME: /tmp/cache}}\n")
    options = ("--cluster", "laptop", "--team", "nlp", "--image", IMAGE, "--nodes", "1")
    assert_ended(few.run("init", "second", *options), 0)
    assert f"env.HF_HOME from {DEFAULTS}:2" in few.run("plan", "second").stdout


def test_a_review_names_the_default(few: Scratch) -> None:
    few.write(DEFAULTS, "all:\n  env: {HF_HOME: /tmp/cache}\n")
    assert_ended(few.run("roll", "digits-ddp", "stdlib-lm", "sdk-train", "xgboost-trainjob"), 0)
    answer = json.loads(few.run("diff", "HEAD", "--format", "json").stdout)
    cause = f"{DEFAULTS}: env/HF_HOME (nothing) -> /tmp/cache"
    assert {run["cause"] for run in answer["runs"]} == {cause}
    (shared,) = [one for one in answer["shared"] if one["title"] == cause]
    assert sorted(shared["runs"]) == ["digits-ddp", "sdk-train", "stdlib-lm", "xgboost-trainjob"]
    assert f"its own file is the same; the cause: {cause}" in few.run("diff", "HEAD").stdout


def test_a_review_names_the_default_of_a_run_that_was_held_too(few: Scratch) -> None:
    """The record knows the default as it is, and as it was where the held objects have it from."""
    few.write(DEFAULTS, "teams:\n  vision: {env: {HF_HOME: /tmp/cache}}\n")
    for arguments in (("hold", "digits-ddp"), ("synth",), ("hold", "digits-ddp", "--reason", "until somebody has looked")):
        assert_ended(few.run(*arguments), 0)
    few.git("add", "--all")
    few.git("commit", "--quiet", "--message", "held")
    assert_ended(few.run("roll", "digits-ddp"), 0)
    assert f"the cause: {DEFAULTS}: env/HF_HOME (nothing) -> /tmp/cache" in few.run("diff", "HEAD").stdout
    assert_ended(few.run("check"), 0)


def test_what_reads_one_file_reads_no_defaults(few: Scratch) -> None:
    few.write(DEFAULTS, "all: {env: {HF_HOME: /tmp/cache}}\n")
    assert "HF_HOME" in few.build().runs["digits-ddp"].compiled.run.env
    assert "HF_HOME" not in load_run(few.path(DIGITS)).env


def test_defaults_that_cannot_be_read_take_no_sweep_away(few: Scratch) -> None:
    few.write("charts/runs/twice.py", TWICE)
    few.synth()
    before = few.dist()
    assert "laptop/training/runs/twice-b.k8s.yaml" in before
    few.write(DEFAULTS, "all: [1]\n")
    assert_ended(few.run("synth", "--keep-going"), 1, f"{DEFAULTS}:1:1: error TW107 `all` must be a mapping")
    assert few.dist() == before


def test_a_name_that_nothing_has_says_what_was_not_read(few: Scratch) -> None:
    few.write(DEFAULTS, "all: [1]\n")
    ended = few.run("synth", "nobody")
    unread = f"not read: {DEFAULTS}, see `trainwright check`"
    assert_ended(ended, ended.returncode, "there is no run nobody; there are none", unread)
    few.path(DEFAULTS).rename(few.path("charts/defaults.yml"))
    assert_ended(few.run("synth", "nobody"), ended.returncode, "not read: charts/defaults.yml, see `trainwright check`")


def test_a_default_is_for_the_runs_that_read_it(few: Scratch) -> None:
    few.write("charts/runs/opaque.yaml", OPAQUE)
    assert [one.code for one in few.build().runs["opaque"].compiled.findings if one.code == "TW207"] == []
    few.write(DEFAULTS, "all: {peer_wait: 5m}\n")
    assert [one for one in few.build().findings if one.code == "TW207"] == []
    few.write("charts/runs/opaque.yaml", OPAQUE + "peer_wait: 6m\n")
    assert [one.where.file for one in few.build().findings if one.code == "TW207"] == ["charts/runs/opaque.yaml"]
