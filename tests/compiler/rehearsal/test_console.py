"""What ``trainwright rehearse`` prints and exits with."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from ruamel.yaml import YAML
from tests.compiler.rehearsal.stage import DIGITS, JOB, Manifest, container_of, manifests, of_kind

from trainwright.operators.ending import ContainerEnd, PodEnd
from trainwright.rehearsal import Options, rehearse_file
from trainwright.rehearsal.console import first_failure
from trainwright.rehearsal.stated.objects import objects_in
from trainwright_trainer.contract import EXIT_CODES, ExitCode, TerminationMessage

LOG = """
import json
def say(event, level="info", **fields):
    print(json.dumps({"event": event, "level": level, "run": "probe", "rank": 0, **fields}), flush=True)
say("run_started", step=0, samples=0, target_samples=640, global_batch=64, world_size=1)
say("step", step=1, samples=64, loss=2.3, samples_per_second=100.0)
say("slow_disk", level="warning", path="/data")
say("checkpoint_committed", step=5, path="/data/step-5")
say("step", step=10, samples=640, loss=0.5, samples_per_second=120.0)
say("evaluated", step=10, loss=0.4, accuracy=0.93)
"""


def run(
    found: list[Manifest] | str, tmp_path: Path, terminal: bool = False, as_json: bool = False, **choices: Any
) -> tuple[int, str]:
    file = tmp_path / "run.k8s.yaml"
    if isinstance(found, str):
        file.write_text(found)
    else:
        with file.open("w") as stream:
            YAML(typ="safe", pure=True).dump_all(found, stream)
    console = Console(file=io.StringIO(), force_terminal=terminal, width=120)
    code = rehearse_file(file, workspace=tmp_path / "w", console=console, as_json=as_json, options=Options(**choices))
    assert isinstance(console.file, io.StringIO)
    return code, console.file.getvalue()


def test_a_rehearsal_that_completes(tmp_path: Path) -> None:
    code, text = run(manifests(LOG), tmp_path)
    assert code == 0
    for part in (
        f"{JOB} in training, on this machine: 1 pod, ",
        "Differences from the cluster",
        f"/data -> {tmp_path}/w/claims/data",
        "training from step 0: 1 rank, 64 samples a step",
        "step 1 of 10  loss 2.300  100 samples/s",
        "[node 0] slow disk, path",
        "step 5 is committed",
        "step 10: held-out accuracy 93.0%",
        "Complete: CompletionsReached",
        "2.300 -> 0.500 (steps 1 to 10)",
        f"{tmp_path}/w/claims/data/step-5",
    ):
        assert part in text


BACK = "\x1b[1A"
"""Up one line, to draw over it."""
ONCE = LOG + """
import os, pathlib, sys
tried = pathlib.Path("/data/tried-" + os.environ["JOB_COMPLETION_INDEX"])
if os.environ["JOB_COMPLETION_INDEX"] == "1" and not tried.exists():
    tried.touch()
    sys.exit(202)
"""


def test_one_table_of_the_pods_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CI", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    code, text = run(manifests(ONCE, pods=2), tmp_path, terminal=True, pace=0.005)
    assert code == 0
    assert BACK in text
    _, _, last = text.rpartition("pod     phase")
    rows = [re.sub(r"\x1b\[[^A-Za-z]*[A-Za-z]", "", line).split() for line in last.splitlines()]
    assert rows[0] == ["step", "rate", "restarts"]
    assert rows[1] == ["node", "0", "Succeeded", "10", "of", "10", "-", "0"]
    assert rows[2] == ["node", "1", "Succeeded", "-", "-", "1"]
    assert "step 10 of 10  loss 0.500  accuracy 93.0%" in last
    assert "Complete: CompletionsReached" in re.sub(r"\x1b\[[0-9;]*m", "", last), "what came of it stands below"


def test_plain_lines_in_ci(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log keeps every line that is drawn over."""
    monkeypatch.setenv("CI", "true")
    code, text = run(manifests(LOG), tmp_path, terminal=True)
    assert code == 0
    assert BACK not in text
    assert "step 1 of 10  loss 2.300  100 samples/s" in text


def test_a_rehearsal_that_fails_shows_why(tmp_path: Path) -> None:
    program = 'import os, sys, time\nif os.environ["JOB_COMPLETION_INDEX"] == "1":\n    sys.exit("the reason")\ntime.sleep(600)'
    found = manifests(program, pods=2)
    of_kind(found, "Job")["spec"]["backoffLimitPerIndex"] = 0
    code, text = run(found, tmp_path)
    assert code == 1
    summary = text[text.index("Failed: MaxFailedIndexesExceeded") :].splitlines()
    assert len(summary) == 5
    assert re.fullmatch(rf"  failed first +pod {JOB}-1-\w+, container main: exit code 1", summary[1])
    assert re.fullmatch(r"  it said +the reason", summary[2])
    assert re.fullmatch(r"  training +no step was logged, none is committed", summary[3])
    assert summary[4].endswith("/main.log")


TRACEBACK = """
import subprocess, sys
run = subprocess.run([sys.executable, "-c", "import no_such_library"])
print("the launcher says that a child failed with", run.returncode)
sys.exit(3)
"""


def test_a_failure_is_told_in_the_words_of_the_program_that_failed_first(tmp_path: Path) -> None:
    found = manifests(TRACEBACK)
    of_kind(found, "Job")["spec"]["backoffLimitPerIndex"] = 0
    _, text = run(found, tmp_path)
    assert re.search(r"it said +ModuleNotFoundError: No module named 'no_such_library'\n", text)


def test_a_command_line_s_error_is_told_without_its_box(tmp_path: Path) -> None:
    found = manifests("", command=["trainwright-trainer", "supervize"])
    of_kind(found, "Job")["spec"]["backoffLimitPerIndex"] = 0
    _, text = run(found, tmp_path)
    assert re.search(r"it said +No such command 'supervize'\. Did you mean 'supervise'\?\n", text)


def test_who_lost_a_peer_is_not_the_first_to_fail() -> None:
    def end(pod: str, code: ExitCode) -> PodEnd:
        message = TerminationMessage(reason=EXIT_CODES[code].reason, code=code, run="r", identity="r-1", attempt="1")
        return PodEnd(pod, "training", 0, (ContainerEnd("trainer", code, message.model_dump_json()),))

    lost, crashed, invalid = end("a", ExitCode.PEER_LOST), end("b", ExitCode.INTERNAL), end("c", ExitCode.INVALID_SPEC)
    assert first_failure([lost, crashed]) is crashed
    assert first_failure([lost, crashed, invalid]) is invalid
    assert first_failure([lost]) is lost


def test_manifests_that_cannot_work(tmp_path: Path) -> None:
    found = objects_in(DIGITS)
    of_kind(found, "Service")["spec"]["selector"] = {"app": "other"}
    container_of(found)["ports"][2]["containerPort"] = 9401
    code, text = run(found, tmp_path)
    assert code == 3
    assert "These manifests cannot work:" in text
    assert "the pods have no label app" in text
    assert "containerPort is 9401" in text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: [", ":1:5: TW102: the file ends where a value is missing; write it"),
        ("- 1\n", ":1:1: TW104: the file holds a list, not keys and values"),
        ("text", ":1:1: TW104: the file holds a single value"),
        ("kind: Job\nspec: {suspend: yes}\n", ":2:17: TW712: kubectl and Argo CD read `yes` as true"),
    ],
)
def test_a_file_that_holds_no_manifests(tmp_path: Path, text: str, reason: str) -> None:
    code, printed = run(text, tmp_path)
    assert code == 2
    assert reason in printed


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    console = Console(file=io.StringIO())
    assert rehearse_file(tmp_path / "none.yaml", workspace=tmp_path / "w", console=console) == 2


def test_an_empty_file_has_no_job(tmp_path: Path) -> None:
    code, printed = run("", tmp_path)
    assert code == 3
    assert "they hold no objects whose pods a rehearsal knows" in printed


def test_a_file_that_only_the_image_holds_is_told(tmp_path: Path) -> None:
    found = manifests("print('x')")
    container_of(found)["command"] = ["python", "/app/train.py"]
    of_kind(found, "Job")["spec"]["backoffLimitPerIndex"] = 0
    code, printed = run(found, tmp_path)
    assert code == 3
    assert "name a folder that stands for the image's: --mount /app=FOLDER" in printed
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "train.py").write_text("print('trained')")
    code, printed = run(found, tmp_path, mounts={"/app": tmp_path / "app"})
    assert code == 0
    assert "trained" in printed
