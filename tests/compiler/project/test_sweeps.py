"""Modules that export RUNS: a sweep is a loop, and each of its runs is one like any other."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from tests.compiler.projects import Scratch, assert_ended
from tests.pages import DOCS, FENCE

from trainwright import load_run
from trainwright.findings import CompileError

MODULE = "charts/runs/rate_sweep.py"
DEFAULTS = "charts/defaults.yaml"
PAGE = (DOCS / "run-file.md").read_text(encoding="utf-8")
SWEEP = next(match["body"] for match in FENCE.finditer(PAGE) if match["what"] == f"file {MODULE}")
TYPED = next(match["body"] for match in FENCE.finditer(PAGE) if match["what"] == "file charts/runs/vit_sizes.py")
PLAIN = """\
def runs():
    for seed in range(2):
        yield {
            "run": f"rate-sweep-{seed}", "team": "vision", "cluster": "laptop", "namespace": "training",
            "image": "registry.example.com/x@sha256:" + "b" * 64,
            "topology": {"kind": "ddp", "nodes": 1, "gpus_per_node": 0},
            "workload": {"kind": "command", "command": ["python", "/app/train.py", str(seed)]},
            "security": {"user": 1000},
        }

RUNS = runs()
"""
NAMES = ("rate-sweep-0", "rate-sweep-1", "rate-sweep-2")


def test_a_sweep_is_a_loop(few: Scratch) -> None:
    before = few.dist()
    few.write(MODULE, SWEEP)
    ended = few.run("synth")
    assert_ended(ended, 0)
    for name in NAMES:
        assert f"{name}: new run" in ended.stdout
    assert few.dist().keys() - before.keys() == {f"laptop/training/runs/{name}.k8s.yaml" for name in NAMES}
    assert {key: few.dist()[key] for key in before} == before
    records = [yaml.safe_load(few.read(f"charts/lock/{name}.yaml")) for name in NAMES]
    assert len({record["identity"] for record in records}) == 3
    assert [record["facts"]["learning_rate.base"] for record in records] == ["1.0e-3", "2.0e-3", "4.0e-3"]
    assert_ended(few.run("check"), 0)
    few.git("add", "--all")
    few.git("commit", "--quiet", "--message", "a sweep")
    assert "changed since the last synth" not in few.run("diff", "HEAD").stdout


def test_a_run_of_a_sweep_is_chosen_by_its_name(few: Scratch) -> None:
    few.write(MODULE, SWEEP)
    assert_ended(few.run("synth", "rate-sweep-1"), 0)
    assert [path.stem for path in sorted(few.path("charts/lock").glob("rate-*"))] == ["rate-sweep-1"]
    assert few.run("plan", "rate-sweep-2").stdout.startswith("rate-sweep-2-")
    assert_ended(few.run("plan", "rate-sweep-9"), 2, "there is no run rate-sweep-9; did you mean rate-sweep-")
    ended = few.run("init", "rate-sweep-0", "--cluster", "laptop")
    assert_ended(ended, 2, f"{MODULE} has a run rate-sweep-0 already")


def test_a_run_that_leaves_the_loop_leaves_dist(few: Scratch) -> None:
    few.write(MODULE, SWEEP)
    few.synth()
    identities = {name: yaml.safe_load(few.read(f"charts/lock/{name}.yaml"))["identity"] for name in NAMES}
    few.edit(MODULE, "(1e-3, 2e-3, 4e-3)", "(1e-3, 2e-3)")
    ended = few.run("synth")
    assert_ended(ended, 0)
    assert "rate-sweep-2: removed" in ended.stdout
    assert not list(few.root.rglob("rate-sweep-2*"))
    assert all(yaml.safe_load(few.read(f"charts/lock/{name}.yaml"))["identity"] == identities[name] for name in NAMES[:2])


def test_a_module_that_fails_takes_no_run_of_it_away(few: Scratch) -> None:
    few.write(MODULE, SWEEP)
    few.synth()
    before = few.dist()
    few.edit(MODULE, "RUNS = [", "RUNS = 1 / 0, [")
    assert_ended(few.run("synth", "--keep-going"), 1, f"{MODULE}:8", "ZeroDivisionError")
    assert few.dist() == before
    assert_ended(few.run("plan", "rate-sweep-1"), 1, "ZeroDivisionError")


def test_a_sweep_of_models_has_the_defaults(few: Scratch) -> None:
    image = "registry.example.com/x@sha256:" + "b" * 64
    few.write(DEFAULTS, f"all: {{namespace: training, team: vision, cluster: laptop, image: {image}}}\n")
    few.write("charts/runs/vit_sizes.py", TYPED)
    assert_ended(few.run("synth"), 0)
    for width in (64, 128):
        record = yaml.safe_load(few.read(f"charts/lock/vit-sizes-{width}.yaml"))
        assert record["defaults"] == {
            "namespace": "training", "team": "vision", "cluster": "laptop", "image": image,
        }  # fmt: skip


def test_a_sweep_has_the_defaults(few: Scratch) -> None:
    few.write(DEFAULTS, "all: {namespace: training, team: vision, cluster: laptop, security: {user: 7}}\n")
    few.write(MODULE, PLAIN.replace('"team": "vision", "cluster": "laptop", "namespace": "training",', ""))
    assert_ended(few.run("synth", "rate-sweep-0"), 0)
    record = yaml.safe_load(few.read("charts/lock/rate-sweep-0.yaml"))
    assert record["defaults"] == {"namespace": "training", "team": "vision", "cluster": "laptop"}
    few.write(MODULE, PLAIN.replace('"security": {"user": 1000},', ""))
    assert_ended(few.run("synth", "rate-sweep-1"), 0)
    assert yaml.safe_load(few.read("charts/lock/rate-sweep-1.yaml"))["defaults"] == {"security/user": 7}


@pytest.mark.parametrize(
    ("text", "code", "line", "words"),
    [
        (PLAIN.replace("-{seed}", "-0"), "TW109", 11, "RUNS[1] is called rate-sweep-0, and so is RUNS[0]"),
        (PLAIN.replace("rate-sweep-", "lr-"), "TW109", 11, "RUNS[0] is called lr-0, and its module rate_sweep.py"),
        (PLAIN.replace('"nodes": 1', '"nodes": seed'), "TW107", 11, "RUNS[0] (rate-sweep-0): `topology.nodes` must be"),
        (PLAIN.replace("runs()\n", "[]\n"), "TW108", 11, "RUNS is empty"),
        (PLAIN.replace(" runs()\n", " 'abc'\n"), "TW108", 11, "RUNS is of type str, not a list of runs"),
        (PLAIN.replace(" runs()\n", " [7]\n"), "TW108", 11, "RUNS[0] is of type int, not a run"),
        (PLAIN.replace("range(2)", "range(10**9)"), "TW108", 11, "RUNS has more than 1,000 runs"),
        (PLAIN.replace("        yield", "        1 / seed\n        yield"), "TW108", 3, "the module raises ZeroDivisionError"),
        (PLAIN + "RUN = next(iter(runs()))\n", "TW109", 12, "run rate-sweep-0 is in a file called rate_sweep.py"),
        (SWEEP.replace("{number}", "0"), "TW109", 8, "RUNS[1] is called rate-sweep-0, and so is RUNS[0]"),
        ("from trainwright.run import Run\nRUNS = [\n  Run(run='rate-sweep-x', teem='a')]\n", "TW105", 3,
         "RUNS (rate-sweep-x): there is no key `teem`"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_sweep_names_the_module_and_the_run(few: Scratch, text: str, code: str, line: int, words: str) -> None:
    few.write(MODULE, text)
    build = few.build()
    findings = [one for one in build.findings if one.where.file == MODULE]
    assert (code, line, True) in [(one.code, one.where.line, words in one.message) for one in findings], findings


def test_what_the_compiler_refuses_of_a_run_names_it(few: Scratch) -> None:
    few.write(MODULE, PLAIN.replace('"security": {"user": 1000},', '"node_pool": "none" if seed else None,'))
    messages = [one.message for one in few.build().findings if one.where.file == MODULE]
    assert any(message.startswith("rate-sweep-0: ") for message in messages), messages
    assert any(message.startswith("rate-sweep-1: ") for message in messages), messages


def test_what_a_rule_finds_of_one_run_is_on_the_line_of_run(few: Scratch) -> None:
    text = PLAIN.replace('"security": {"user": 1000},', '"node_pool": "none",').replace("-{seed}", "")
    few.write(MODULE, text.replace("RUNS = runs()", "RUN = next(iter(runs()))"))
    assert {one.where.line for one in few.build().findings if one.where.file == MODULE} == {11}


def test_a_module_that_cannot_be_read_is_named_where_one_of_its_runs_is_asked_for(few: Scratch) -> None:
    few.write(MODULE, "RUNS = 3\n")
    assert_ended(few.run("plan", "rate-sweep-1"), 1, f"{MODULE}:1:1", "RUNS is of type int")
    assert_ended(few.run("plan", "elsewhere"), 2, f"; not read: {MODULE}, see `trainwright check`")


def test_a_run_stands_beside_its_sweep(few: Scratch) -> None:
    few.write(MODULE, SWEEP + 'RUN = BASE.model_copy(update={"run": "rate-sweep"})\n')
    assert {name for name in few.build().runs if name.startswith("rate")} == {"rate-sweep", *NAMES}


def test_one_run_is_not_loaded_from_several(tmp_path: Path) -> None:
    (tmp_path / "rate_sweep.py").write_text(PLAIN, encoding="utf-8")
    with pytest.raises(CompileError, match="the module exports 2 runs"):
        load_run(tmp_path / "rate_sweep.py")
