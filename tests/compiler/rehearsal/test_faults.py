"""Faults at a step: what is done to real processes, what the controller does then, and what the verdict says of it."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.compiler.rehearsal.stage import DIGITS, Manifest, Recorder, complete, manifests, of_kind, options, play
from tests.compiler.rehearsal.test_console import run
from tests.compiler.rehearsal.test_ending import until

from trainwright.operators.ending import Decision, PodEnd, Replace
from trainwright.rehearsal import UsageError
from trainwright.rehearsal.console import as_document
from trainwright.rehearsal.faults.made import faults
from trainwright.rehearsal.progress import Progress
from trainwright.rehearsal.scale import scale_down
from trainwright.rehearsal.stated.objects import find_objects, objects_in

TRAIN = """
import json, os, pathlib, subprocess, sys, time
index, state = int(os.environ["JOB_COMPLETION_INDEX"]), pathlib.Path("/data/state")
if "LOCAL_RANK" not in os.environ:
    rank = subprocess.Popen([sys.executable, __file__], env={**os.environ, "RANK": str(index), "LOCAL_RANK": "0"})
    code = rank.wait()
    sys.exit(code if code >= 0 else 200)
commits = pathlib.Path("/data/commits")
def say(event, **fields):
    print(json.dumps({"event": event, "level": "info", **fields}), flush=True)
def newest():
    found = sorted(commits.glob("step-*.json"), key=lambda one: int(one.stem[5:]), reverse=True)
    whole = [int(one.stem[5:]) for one in found if pathlib.Path("/data", one.stem, "weights").read_bytes() == b"x" * 64]
    return whole[0] if whole else 0
start = newest()
if index == 0:
    say("run_started", step=start, target_samples=STEPS * 8, global_batch=8, world_size=2)
for step in range(start + 1, STEPS + 1):
    time.sleep(0.05)
    if index == 0:
        held = pathlib.Path(f"/data/held-{step}")
        waits = step in HELD and "/undisturbed/" not in str(held) and not held.exists()
        if waits:
            held.touch()
        say("step", step=step, loss=1 / step + NOISE)
        if step % 4 == 0:
            folder = pathlib.Path(f"/data/step-{step}")
            folder.mkdir(parents=True, exist_ok=True)
            commits.mkdir(exist_ok=True)
            (folder / "weights").write_text("x" * 64)
            (commits / f"step-{step}.json").touch()
            say("checkpoint_committed", step=step)
        if waits:
            time.sleep(600)
""".replace("STEPS", "24")
"""Goes no further than a step at which a fault is made, else the next commit may come between a look at it and its end."""


def training(*held: int, noise: str = "0.0", **limits: Any) -> list[Manifest]:
    """Waits at these steps for a fault, once for each; the undisturbed run, which gets none, does not."""
    found = manifests(TRAIN.replace("NOISE", noise).replace("HELD", str(held)), pods=2)
    spec = of_kind(found, "Job")["spec"]
    spec.update({"backoffLimitPerIndex": 3, **limits})
    spec["podFailurePolicy"]["rules"].append({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]})
    return found


def verdict(tmp_path: Path, found: list[Manifest] | None = None, **chosen: Any) -> dict[str, Any]:
    outcome, _ = play(found or training(), tmp_path / "w", **chosen)
    return as_document(outcome)


@pytest.mark.parametrize(("fault", "replaced"), [
    (("kill", "node-0@10"), "node 0 (failure 1)"),
    (("kill", "rank-0@10"), "node 0 (failure 1)"),
    (("oom", "node-0@10"), "node 0 (failure 1)"),
    (("preempt", "node-0@10"), "node 0 (not counted by rule 2)"),
])  # fmt: skip
def test_a_run_that_recovers(fault: tuple[str, str], replaced: str, tmp_path: Path) -> None:
    said = verdict(tmp_path, training(10), faults=(fault,))
    assert said["status"] == "Complete"
    [made] = said["faults"]
    assert made["replaced"] == [replaced]
    assert (made["step"], made["committed_step"], made["resumed_from"], made["steps_lost"]) == (10, 8, 8, 2)
    assert made["next_step_seconds"] > 0
    assert said["undisturbed"] == {"compared_steps": 24, "equal": True, "first_difference": None, "largest_difference": 0.0}


def test_a_killed_container_ends_with_137_and_an_evicted_one_by_sigterm(tmp_path: Path) -> None:
    said = verdict(tmp_path, training(5, 13), faults=(("kill", "node-0@5"), ("preempt", "node-0@13")))
    codes = [one["exit_codes"]["main"] for one in said["pods"] if "-0-" in one["pod"]]
    assert codes[:2] == [137, 143]
    assert [one["fault"] for one in said["faults"]] == ["kill", "preempt"]


def test_losses_that_differ_are_told(tmp_path: Path) -> None:
    said = verdict(tmp_path, training(10, noise="time.time() / 1e12"), faults=(("kill", "node-0@10"),))
    assert said["undisturbed"]["equal"] is False
    assert said["undisturbed"]["first_difference"] == 1


ENDS_UNLESS_KILLED = """
import json, pathlib, time
def say(event, **fields):
    print(json.dumps({"event": event, "level": "info", **fields}), flush=True)
tried, again = pathlib.Path("/data/tried"), pathlib.Path("/data/tried").exists()
tried.touch()
say("run_started", step=0)
say("step", step=1, loss=1.0)
if not again:
    time.sleep(SECONDS if "/undisturbed/" in str(tried) else 600)
    raise SystemExit(10)
"""
"""Once it is killed, it completes; undisturbed it fails after so many seconds."""


def test_an_undisturbed_run_that_fails_is_not_compared(tmp_path: Path) -> None:
    found = manifests(ENDS_UNLESS_KILLED.replace("SECONDS", "0"))
    code, text = run(found, tmp_path, faults=(("kill", "node-0@1"),), pace=0.005)
    assert code == 0
    assert "not compared: the undisturbed run did not complete: PodFailurePolicy, Container main for pod" in text
    assert "equal to an undisturbed run" not in text


def test_a_signal_in_the_undisturbed_run_ends_the_rehearsal(tmp_path: Path) -> None:
    class Stops(Recorder):
        def comparing(self) -> None:
            threading.Thread(target=self.stop, daemon=True).start()

        def stop(self) -> None:
            until((tmp_path / "w" / "undisturbed" / "claims" / "data" / "tried").exists, "the start of the second play")
            os.kill(os.getpid(), signal.SIGTERM)

    found = manifests(ENDS_UNLESS_KILLED.replace("SECONDS", "600"))
    outcome, _ = play(found, tmp_path / "w", Stops(), faults=(("kill", "node-0@1"),))
    assert (outcome.status, outcome.reason, outcome.exit_code) == ("Stopped", "Signal", 143)
    assert outcome.verdict.compared is None
    assert as_document(outcome)["not_compared"] == "Signal, ended by SIGTERM"


def test_a_pod_whose_node_is_lost_blocks_its_index(tmp_path: Path) -> None:
    outcome, recorder = play(training(6), tmp_path / "w", faults=(("node-lost", "node-0@6"),), patience_seconds=2.0)
    assert (outcome.status, outcome.reason) == ("Failed", "NoRecovery")
    assert "its pod stays Terminating, and its index gets no other one" in outcome.message
    assert [pod.index for pod in recorder.started].count(0) == 1
    assert not [one for one in recorder.decisions if isinstance(one, Replace)]


def test_a_rank_that_hangs_where_nothing_watches(tmp_path: Path) -> None:
    outcome, _ = play(training(6), tmp_path / "w", faults=(("hang", "rank-0@6"),), patience_seconds=2.0)
    assert outcome.reason == "NoRecovery"
    assert "nothing ends a rank that hangs" in outcome.message


def test_a_hang_is_noticed_by_our_watchdog_within_the_time_of_a_rehearsal() -> None:
    scaled = scale_down(find_objects(objects_in(DIGITS)), options(faults=(("hang", "rank-0@6"),)))
    assert scaled.specification
    watchdog = scaled.specification.spec.lifecycle.watchdog
    assert watchdog
    assert watchdog.training_seconds == 30
    assert any("lifecycle.watchdog" in str(one) for one in scaled.differences)


def test_the_newest_checkpoint_is_damaged_before_the_fault(tmp_path: Path) -> None:
    said = verdict(tmp_path, training(11), faults=(("kill", "node-0@11"),), corrupt=True)
    [made] = said["faults"]
    assert (Path(made["damaged"]).name, made["resumed_from"]) == ("step-8", 4), "it goes on from the one before"
    assert said["undisturbed"]["equal"]


def test_a_checkpoint_of_the_last_rehearsal_is_damaged(tmp_path: Path) -> None:
    play(training(), tmp_path / "w")
    said = verdict(tmp_path, corrupt=True)
    assert said["damaged"].endswith("/step-24")
    with pytest.raises(UsageError, match="no checkpoint of our trainer is committed yet"):
        play(training(), tmp_path / "other", corrupt=True)


@pytest.mark.parametrize("fault", [{"corrupt": True}, {"faults": (("kill", "node-1@3"),)}])
def test_a_complete_run_is_left_alone(fault: Any, tmp_path: Path) -> None:
    found = objects_in(DIGITS)
    folder = complete(found, tmp_path / "w")
    for part in ("commits", "step-5"):
        (folder / part).mkdir()
    (folder / "commits" / "step-5.json").touch()
    (folder / "step-5" / "weights").write_bytes(b"x" * 64)
    with pytest.raises(UsageError, match="so no fault would reach it: write --fresh"):
        play(found, tmp_path / "w", **fault)
    assert (folder / "step-5" / "weights").read_bytes() == b"x" * 64


def test_a_step_that_never_comes(tmp_path: Path) -> None:
    code, text = run(training(), tmp_path, faults=(("kill", "node-0@100"),), pace=0.005)
    assert code == 2
    assert "kill node 0        was not made: the run ended before" in text


def test_the_same_seed_makes_the_same_faults() -> None:
    objects = find_objects(training())
    first, again = (faults((), 5, 7, objects) for _ in range(2))
    assert first == again
    assert first != faults((), 5, 8, objects)
    assert [one.share for one in first] == sorted(one.share or 0.0 for one in first)


def test_chaos_that_a_run_survives(tmp_path: Path) -> None:
    said = verdict(tmp_path, training(backoffLimitPerIndex=9), chaos=3, seed=1)
    assert said["status"] == "Complete"
    assert len(said["faults"]) + len(said["not_made"]) == 3
    assert said["faults"]


@pytest.mark.parametrize(("kind", "text", "who"), [
    ("kill", "node-2@5", "here WHO is node-0, node-1 or rank-N"),
    ("kill", "node-1", "write WHO@STEP"),
    ("hang", "node-1@5", "here WHO is rank-N"),
    ("preempt", "rank-1@5", "here WHO is node-0, node-1"),
    ("oom", "node-1@x", "write WHO@STEP"),
])  # fmt: skip
def test_whom_nobody_knows(kind: Any, text: str, who: str) -> None:
    with pytest.raises(UsageError, match=who):
        faults([(kind, text)], 0, 0, find_objects(training()))


WAITS_UNTIL_REPLACED = """
import os, pathlib, time
replaced = pathlib.Path("/data/replaced")
if os.environ["JOB_COMPLETION_INDEX"] == "1" and "/undisturbed/" not in str(replaced) and not replaced.exists():
    time.sleep(600)
"""


def test_a_run_that_tells_no_steps_has_seconds(tmp_path: Path) -> None:
    class Tells(Recorder):
        def decided(self, end: PodEnd, decision: Decision, delay_seconds: float) -> None:
            if isinstance(decision, Replace):
                (tmp_path / "w" / "claims" / "data" / "replaced").touch()

    outcome, _ = play(manifests(WAITS_UNTIL_REPLACED, pods=2), tmp_path / "w", Tells(), faults=(("kill", "node-1@0.3s"),))
    said = as_document(outcome)
    assert said["status"] == "Complete"
    assert said["faults"][0]["replaced"] == ["node 1 (failure 1)"]
    assert said["undisturbed"]["compared_steps"] == 0


def test_a_lost_node_of_a_run_that_tells_no_steps_ends_the_rehearsal(tmp_path: Path) -> None:
    found = manifests("import os, time\nif os.environ['JOB_COMPLETION_INDEX'] == '1': time.sleep(600)", pods=2)
    outcome, _ = play(found, tmp_path / "w", faults=(("node-lost", "node-1@0.3s"),), patience_seconds=2.0)
    assert (outcome.status, outcome.reason) == ("Failed", "NoRecovery")
    assert "node-lost node 1: its pod stays Terminating" in outcome.message


def test_what_goes_wrong_while_a_fault_is_made_is_raised(tmp_path: Path) -> None:
    class Breaks(Recorder):
        def disturbed(self, what: str) -> None:
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        play(training(4), tmp_path / "w", Breaks(), faults=(("kill", "node-0@4"), ("kill", "node-1@8")))


def test_json_is_all_that_standard_output_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(training(8), tmp_path, faults=(("kill", "node-0@8"),), pace=0.005, as_json=True)
    assert json.loads(capsys.readouterr().out)["faults"][0]["fault"] == "kill"


def test_steps_are_read_from_metrics_where_no_line_tells_them() -> None:
    progress = Progress()
    for values in (
        {"step": 1.0, "loss": 3.0, "attempt": 1.0}, {"step": 2.0, "loss": 2.0, "committed_step": 2.0, "attempt": 1.0},
        {"step": 3.0, "loss": 1.5, "committed_step": 2.0, "attempt": 1.0},
    ):
        progress.scraped(values)
    at = progress.moments[-1].at
    assert (progress.step, progress.before(at), progress.committed(at), progress.recovery(at)) == (3, 3, 2, None)
    progress.scraped({"committed_step": 2.0, "attempt": 2.0})
    progress.scraped({"step": 3.0, "loss": 1.5, "committed_step": 2.0, "attempt": 2.0})
    assert progress.recovery(at) is None, "a step of before may still be served"
    progress.scraped({"step": 4.0, "loss": 1.0, "committed_step": 2.0, "attempt": 2.0})
    assert progress.recovery(at) == (2, progress.moments[-1])
    assert progress.losses == {1: 3.0, 2: 2.0, 3: 1.5, 4: 1.0}


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
