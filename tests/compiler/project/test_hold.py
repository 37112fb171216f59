"""Held runs keep their bytes, whichever way ``dist/`` is written, until somebody ends the hold."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.compiler.projects import Scratch, assert_ended, scratch

from trainwright.cli.hold import command as hold
from trainwright.findings import CompileError, Severity

H100 = "charts/clusters/h100-ib.yaml"
MOVED = ("deepspeed-training", "demand-forecast", "llama-1b-ddp", "llama-finetune", "own-script", "qwen-chat", "qwen-texts")
"""Runs whose pods take their share of a node's CPUs."""


@pytest.fixture
def here(tmp_path: Path) -> Scratch:
    return scratch(tmp_path)


def smaller_nodes(here: Scratch) -> None:
    text = here.read(H100)
    here.write(H100, text.replace("cpus: 192", "cpus: 128", 1))


def held(here: Scratch, *arguments: str) -> Scratch:
    """The profile edited, and those runs held against it."""
    smaller_nodes(here)
    assert_ended(here.run("hold", *MOVED, "--reason", "until the evaluation is over", *arguments), 0)
    return here


def record(here: Scratch, run: str) -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load(here.read(f"charts/lock/{run}.yaml"))
    return read


def with_cdk8s(here: Scratch) -> None:
    """What `cdk8s synth` does: it empties dist/, and runs the app."""
    shutil.rmtree(here.root / "dist")
    environment = {"CDK8S_OUTDIR": "dist"}
    ended = subprocess.run(
        [sys.executable, "charts/main.py"], cwd=here.root, env={**os.environ, **environment},
        capture_output=True, text=True, check=False,
    )
    assert ended.returncode == 0, ended.stderr


def test_a_cause_is_said_once_with_both_ways_out(here: Scratch) -> None:
    smaller_nodes(here)
    ended = here.run("synth")
    assert_ended(
        ended, 1, f"{H100}:14:5: error TW501 profile h100-ib: node_pools/h100/cpus 192 → 128 changes pod resources", "of 7 runs",
        f"trainwright roll {' '.join(MOVED)}", f"trainwright hold {' '.join(MOVED)}",
    )
    assert ended.stderr.count("TW501") == 1


@pytest.mark.slow
@pytest.mark.parametrize("way", ["synth", "cdk8s"])
def test_held_runs_keep_their_bytes(here: Scratch, way: str) -> None:
    before, identity = here.dist(), record(here, "llama-1b-ddp")["identity"]
    held(here)
    assert here.dist() == before
    if way == "synth":
        assert_ended(here.run("synth"), 0)
    else:
        with_cdk8s(here)
    assert here.dist() == before
    checked = here.run("check")
    assert_ended(checked, 0)
    assert checked.stdout.startswith("28 runs and 7 foundations: in order; held: " + ", ".join(MOVED))
    assert here.git("diff", "--name-only", "--", "dist") == ""
    said = record(here, "llama-1b-ddp")["hold"]
    assert (said["since"], said["why"]) == ("0.2.0.dev0", "until the evaluation is over")
    assert said["identity"] != record(here, "llama-1b-ddp")["identity"] == identity
    assert f"llama-1b-ddp is held as llama-1b-ddp-{identity}: until the evaluation" in here.run("plan", "llama-1b-ddp").stdout


@pytest.mark.slow
def test_what_ends_a_hold(here: Scratch) -> None:
    """A label waits; an edit that restarts, `roll` and `state: done` do not."""
    before = here.dist()
    held(here).synth()
    label, _, edited, rolled, retired, *_ = MOVED
    identity = record(here, edited)["identity"]
    here.write(f"charts/runs/{label}.yaml", here.read(f"charts/runs/{label}.yaml") + "labels: {example.com/note: later}\n")
    here.write(f"charts/runs/{edited}.yaml", here.read(f"charts/runs/{edited}.yaml").replace("base: 3e-4", "base: 2e-4"))
    here.write(f"charts/runs/{retired}.yaml", here.read(f"charts/runs/{retired}.yaml") + "state: done\n")
    would_be = {name: record(here, name)["hold"]["identity"] for name in MOVED}
    assert_ended(here.run("roll", rolled), 0)
    assert_ended(here.run("synth"), 0)
    after = here.dist()
    path = "h100-ib/training/runs/{}.k8s.yaml"
    assert after[path.format(label)] == before[path.format(label)]
    assert f"{edited}-{identity}".encode() not in after[path.format(edited)]
    assert f"{rolled}-{would_be[rolled]}".encode() in after[path.format(rolled)]
    assert path.format(retired) not in after
    left = [name for name in MOVED if name not in (edited, rolled, retired)]
    assert [file.stem for file in sorted((here.root / "charts/held").iterdir())] == left
    assert all("hold" not in record(here, name) for name in (edited, rolled, retired))
    assert_ended(here.run("check"), 0)


def test_a_review_says_that_a_hold_ended_where_nothing_else_did(here: Scratch) -> None:
    held(here)
    assert_ended(here.run("synth"), 0)
    here.git("add", "--all")
    here.git("commit", "--quiet", "--message", "held")
    assert_ended(here.run("roll", "own-script"), 0)
    cause = "the end of its hold (until the evaluation is over)"
    assert f"its own file is the same; the cause: {cause}\n" in here.run("diff", "HEAD").stdout


def test_a_hold_that_has_expired_changes_nothing_and_is_an_error(here: Scratch) -> None:
    held(here, "--until", "2099-01-31")
    here.synth()
    before = here.dist()
    with_expiry = here.read("charts/lock/own-script.yaml").replace("2099-01-31", "2020-01-31")
    here.write("charts/lock/own-script.yaml", with_expiry)
    assert_ended(here.run("synth"), 1, "error TW511 own-script was held until 2020-01-31", "trainwright roll own-script")
    assert here.dist() == before
    assert_ended(here.run("hold", "own-script", "--until", "2098-01-01"), 0)
    assert_ended(here.run("check"), 0)


def test_what_is_held_is_not_lost_silently(here: Scratch) -> None:
    held(here).synth()
    before = here.dist()
    file = here.root / "charts/held/own-script.yaml"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("replicas", "Replicas") + "# more\n", encoding="utf-8")
    assert_ended(here.run("synth"), 1, "TW512")
    file.unlink()
    assert_ended(here.run("synth"), 1, "error TW512 own-script is held, and charts/held/own-script.yaml is missing")
    assert here.dist() == before
    file.write_text(text, encoding="utf-8")
    assert_ended(here.run("check"), 0)


def test_a_release_that_moves_every_identity_changes_nothing_that_is_held(here: Scratch, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runtimes are named by their content, so they move too; those of held runs are kept."""
    before, names = here.dist(), list(here.build().runs)
    monkeypatch.setattr("trainwright.identity.PROJECTION", 2)
    monkeypatch.setattr("trainwright.operators.kubeflow_trainer.emit.short_hash", lambda content: "00000000")
    for module in ("project.causes", "project.hold", "cli.hold"):
        monkeypatch.setattr(f"trainwright.{module}.version", lambda name: "9.9.9")
    with pytest.raises(CompileError) as caught:
        here.synth()
    [error] = [finding for finding in caught.value.findings if finding.severity is Severity.ERROR]
    assert error.code == "TW501"
    assert error.message.startswith(f"trainwright 0.2.0.dev0 → 9.9.9 changes the objects of {len(names)} runs, which would ")

    hold(names, project=here.root)
    here.synth()
    runs = {path: text for path, text in before.items() if "/runs/" in path}
    assert {path: text for path, text in here.dist().items() if "/runs/" in path} == runs
    assert here.dist() == before
    assert here.git("diff", "--name-only", "--", "dist") == ""


def test_there_must_be_something_to_hold(here: Scratch) -> None:
    assert_ended(here.run("hold", "own-script"), 2, "own-script would not restart: there is nothing to hold")
    assert_ended(here.run("hold", "own-script", "own-script"), 2, "own-script would not restart")
    both = here.run("hold", "own-script", "hostnetwork-ddp")
    assert_ended(both, 2, "own-script would not restart", "no run was held: leave that one out, and hold the others")
    assert_ended(here.run("hold", "nothing"), 2, "there is no run nothing")
    assert_ended(here.run("hold", "own-script", "--until", "tomorrow"), 2, "write it like 2027-01-31")
    smaller_nodes(here)
    here.edit("charts/runs/own-script.yaml", "run: own-script\n", "run: own-script\nlabels: {example.com/note: later}\n")
    assert_ended(here.run("hold", "own-script"), 2, "charts/runs/own-script.yaml changed since the last synth")


def test_a_claim_that_a_held_run_needs_cannot_be_removed(here: Scratch) -> None:
    held(here).synth()
    before = here.dist()
    text = here.read(H100)
    assert "training-checkpoints" in text
    here.write(H100, text.replace("training-checkpoints", "other-checkpoints"))
    assert_ended(here.run("synth"), 1, "training-checkpoints")
    assert here.dist() == before
