"""The commands that read a cluster, from files: what they print, what they end with, and what the page on them shows."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.compiler.projects import ROOT, Scratch, assert_ended
from tests.pages import DOCS, blocks

SNAPSHOT = DOCS / "examples" / "snapshots" / "waiting.json"
RUN = "llama-1b-ddp"
HERE = Scratch(ROOT)
Data = dict[str, Any]


def changed(tmp_path: Path, *, drop: tuple[str, ...] = (), **collected: Any) -> Path:
    """The snapshot without objects of some kinds, and with other logs or metrics."""
    data = json.loads(SNAPSHOT.read_text())
    data["items"] = [one for one in data["items"] if one["kind"] not in drop]
    data["collected"] |= collected
    path = tmp_path / "snapshot.json"
    path.write_text(json.dumps(data))
    return path


def told(*words: str, code: int) -> Data:
    ended = HERE.run(*words, "--json")
    assert_ended(ended, code)
    data: Data = json.loads(ended.stdout)
    return data


def test_the_page_shows_what_they_print() -> None:
    text = "".join(block.body for block in blocks(DOCS / "waiting.md") if block.language == "console")
    calls = re.findall(r"^\$ trainwright (.+)\n((?:(?!\$ ).*\n?)*)", text, re.MULTILINE)
    assert len(calls) == 5
    for command, shown in calls:
        assert HERE.run(*command.split()).stdout == shown, command


def test_diagnose_for_machines() -> None:
    [run] = told("diagnose", RUN, "--from", str(SNAPSHOT), code=1)["runs"]
    assert (run["cause"], run["known"], run["state"]) == ("no-room", True, "waiting")
    assert run["decided_by"].startswith(f"charts/runs/{RUN}.yaml:")


def test_without_nodes_and_conditions_nothing_is_guessed(tmp_path: Path) -> None:
    data = json.loads(SNAPSHOT.read_text())
    for one in data["items"]:
        one.get("status", {}).pop("conditions", None)
    path = tmp_path / "snapshot.json"
    path.write_text(json.dumps(data))
    [run] = told("diagnose", RUN, "--from", str(path), code=1)["runs"]
    assert not run["known"]
    assert run["says"].startswith("unknown: ")


def test_a_run_that_is_not_there_is_told_apart(tmp_path: Path) -> None:
    path = changed(tmp_path, drop=("Job", "Pod"))
    [run] = told("diagnose", RUN, "--from", str(path), code=1)["runs"]
    assert run["cause"] == "not-applied"
    [line] = told("status", RUN, "--from", str(path), code=0)["runs"]
    assert line["state"] == "absent"


def test_a_run_whose_kind_may_not_be_read_is_not_said_to_be_gone(tmp_path: Path) -> None:
    path = changed(tmp_path, drop=("Job",), lacks={"Job.batch": "jobs.batch is forbidden"})
    [line] = told("status", RUN, "--from", str(path), code=0)["runs"]
    assert (line["state"], line["note"]) == ("unknown", "nothing is known here of any Job.batch")
    [run] = told("diagnose", RUN, "--from", str(path), code=1)["runs"]
    assert (run["cause"], run["known"]) == ("not-asked", False)


def test_status_of_a_run_that_trains(tmp_path: Path) -> None:
    data = json.loads(SNAPSHOT.read_text())
    pods = [one for one in data["items"] if one["kind"] == "Pod"]
    for pod in pods:
        pod["status"] |= {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        pod["spec"]["nodeName"] = "gpu-0"
    numbers = {"step": 120, "step_seconds": 0.5, "committed_step": 100, "attempt": 2, "goodput": 0.9}
    metrics = "\n".join(f'trainwright_{name}{{run="{RUN}"}} {value}' for name, value in numbers.items())
    data["collected"]["metrics"] = {pods[0]["metadata"]["name"]: metrics}
    path = tmp_path / "snapshot.json"
    path.write_text(json.dumps(data))
    [line] = told("status", RUN, "--from", str(path), code=0)["runs"]
    assert (line["state"], line["step"], line["committed_step"], line["attempts"]) == ("training", 120, 100, 2)
    [run] = told("diagnose", RUN, "--from", str(path), code=0)["runs"]
    assert run["fine"]


@pytest.mark.parametrize(("room", "verdict"), [
    ({}, "would start now"), ({"unschedulable": True}, "would wait"),
    ({"taints": [{"key": "a", "effect": "NoExecute"}]}, "would wait"),
    (None, "never"),
])  # fmt: skip
def test_whether_it_would_start(tmp_path: Path, room: Data | None, verdict: str) -> None:
    data = json.loads(SNAPSHOT.with_name("free.json").read_text())
    data["items"][1]["spec"] = room
    if room is None:
        del data["items"][1]
    path = tmp_path / "snapshot.json"
    path.write_text(json.dumps(data))
    assert told("diagnose", RUN, "--before", "--from", str(path), code=0)[RUN]["verdict"] == verdict
    data.pop("collected")
    path.write_text(json.dumps(data))
    plain = "cannot be said from here" if room == {} else verdict
    assert told("diagnose", RUN, "--before", "--from", str(path), code=0)[RUN]["verdict"] == plain


def test_logs_of_pods_that_are_gone_say_so(tmp_path: Path) -> None:
    ended = HERE.run("logs", RUN, "--from", str(changed(tmp_path, drop=("Pod",))))
    assert ended.returncode == 1
    assert "the log is gone" in ended.stdout


@pytest.mark.parametrize(("words", "said"), [
    (["diagnose", "llama-1b-dpd", "--from", str(SNAPSHOT)], f"did you mean {RUN}"),
    (["diagnose", "--from", str(ROOT / "README.md")], "is not JSON"),
    (["status", "--from", str(SNAPSHOT.with_name("none.json"))], "none.json"),
    (["logs", RUN, "--pod", "7", "--from", str(SNAPSHOT)], "there is no pod 7"),
    (["logs", RUN, "--pod", "0", "--rank", "1", "--from", str(SNAPSHOT)], "contradict"),
    (["status", "--watch", "--from", str(SNAPSHOT)], "--watch looks at a cluster"),
])  # fmt: skip
def test_what_is_wrong_is_one_message(words: list[str], said: str) -> None:
    ended = HERE.run(*words)
    assert ended.returncode == 2
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("command", [["status"], ["logs", RUN], ["diagnose"]])
@pytest.mark.parametrize("file", [SNAPSHOT.with_name("none.json"), SNAPSHOT.parent], ids=["missing", "folder"])
def test_a_file_that_cannot_be_read_is_a_wrong_argument(command: list[str], file: Path) -> None:
    ended = HERE.run(*command, "--from", str(file))
    assert (ended.returncode, f"{file} cannot be read: " in ended.stderr) == (2, True), ended.stderr
