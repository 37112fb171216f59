"""Commands that read a cluster while it changes, with a real kubectl."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.compiler.live.conftest import Lab
from tests.compiler.live.kubelet import Log
from tests.compiler.projects import TRAINWRIGHT

from trainwright_trainer.commands.local.ports import free_port
from trainwright_trainer.contract import EXIT_CODES, ExitCode

Data = dict[str, Any]
LINES: list[Data] = [
    {"event": "started", "attempt": "a1", "committed_step": None, "time": "2026-11-26T08:00:00Z"},
    {"event": "times", "attempt": "a1", "seconds": {"training": 60}, "step": 40, "time": "2026-11-26T08:02:00Z"},
    {"event": "ended", "attempt": "a1", "code": 204, "committed_step": 30, "time": "2026-11-26T08:03:00Z"},
    {"event": "started", "attempt": "b2", "committed_step": 30, "time": "2026-11-26T08:04:00Z"},
    {"event": "times", "attempt": "b2", "seconds": {"training": 60}, "step": 55, "time": "2026-11-26T08:06:00Z"},
]


@pytest.fixture(autouse=True)
def interrupted() -> Iterator[None]:
    """A shell starts what it runs in the background deaf to SIGINT, and its children inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def applied(lab: Lab) -> str:
    """The Job of a run that has been applied."""
    lab.apply("digits-ddp")
    [name] = lab.cluster.names("jobs")
    return name


def running(lab: Lab, job: str, index: int) -> str:
    """A pod of it that runs and is ready, as controller and kubelet make it."""
    stored = lab.cluster.named("jobs", job)
    assert stored is not None
    template = stored["spec"]["template"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": stored["metadata"]["uid"], "controller": True}
    container = template["spec"]["containers"][0]["name"]
    pod: Data = {
        "metadata": {
            "name": f"{job}-{index}-x{index}", "ownerReferences": [owner],
            "labels": {**template["metadata"]["labels"], "batch.kubernetes.io/job-completion-index": str(index)},
        },
        "spec": {**template["spec"], "nodeName": "here"},
        "status": {
            "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": container, "ready": True, "restartCount": 0, "state": {"running": {}}}],
        },
    }  # fmt: skip
    lab.cluster.put("v1", "pods", "training", pod)
    return str(pod["metadata"]["name"])


def done(lab: Lab, job: str) -> None:
    conditions = [{"type": "Complete", "status": "True", "reason": "CompletionsReached", "message": ""}]
    lab.cluster.update("jobs", job, "kube-controller-manager", lambda one: one.update(status={"conditions": conditions}))


def read_until(text: str, lines: Iterator[str]) -> str:
    said = ""
    for line in lines:
        said += line
        if text in said:
            return said
    raise AssertionError(f"no {text!r} in {said!r}")


WATCH = ("status", "digits-ddp", "--watch", "--every", "1", "--context", "lab")


def watched(lab: Lab) -> tuple[subprocess.Popen[str], Iterator[str]]:
    """A watch of the run that has spoken once, and what it says from then on."""
    process = lab.start(*WATCH)
    assert process.stdout is not None
    lines = iter(process.stdout.readline, "")
    read_until("digits-ddp", lines)
    return process, lines


def test_watch_says_each_change(lab: Lab) -> None:
    """Where its output is no terminal: a line for each change, and none where nothing has changed."""
    job = applied(lab)
    process, lines = watched(lab)
    for index in (0, 1):
        lab.cluster.kubelet.metrics[running(lab, job, index)] = 'trainwright_phase{phase="saving"} 1.0\ntrainwright_step 7.0\n'
    read_until("saving  2/2", lines)
    done(lab, job)
    assert "saving" not in read_until("done", lines)
    process.send_signal(signal.SIGINT)
    left, _ = process.communicate(timeout=60)
    assert (process.returncode, left) == (128 + signal.SIGINT, "")


def test_watch_goes_on_where_the_api_server_does_not_answer(lab: Lab) -> None:
    job = applied(lab)
    process, lines = watched(lab)
    config = Path(lab.environment["KUBECONFIG"])
    answers = config.read_text()
    replace(config, re.sub(r"(127\.0\.0\.1):\d+", rf"\1:{free_port()}", answers))
    read_until("cluster-info", lines)
    replace(config, answers)
    done(lab, job)
    read_until("  done", lines)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGINT


def replace(file: Path, text: str) -> None:
    """All at once: somebody may read it now."""
    new = file.with_suffix(".new")
    new.write_text(text)
    new.replace(file)


def test_watch_draws_one_table_anew(lab: Lab) -> None:
    """On a terminal, over what it has drawn before."""
    job = applied(lab)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [TRAINWRIGHT, *WATCH], cwd=lab.here.root, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, start_new_session=True,
        env={**lab.environment, "COLUMNS": "200", "LINES": "20", "TERM": "xterm", "CI": ""},
    )
    os.close(theirs)

    def more() -> str:
        try:
            return os.read(ours, 4096).decode(errors="replace")
        except OSError:  # the other end is closed
            return ""

    chunks: Callable[[], str] = more
    read_until("digits-ddp", iter(chunks, ""))
    done(lab, job)
    assert "\x1b[" in read_until(" done", iter(chunks, "")), "the cursor goes back up"
    process.send_signal(signal.SIGINT)
    rest = "".join(iter(chunks, ""))
    assert (process.wait(60), "Traceback" in rest) == (128 + signal.SIGINT, False)
    os.close(ours)


def test_follow_goes_on_as_the_log_does_and_ends_with_it(lab: Lab) -> None:
    pod = running(lab, applied(lab), 1)
    log = lab.cluster.kubelet.logs[pod] = Log()
    process = lab.start("logs", "digits-ddp", "--pod", "1", "--follow", "--context", "lab")
    assert process.stdout is not None
    for number in range(3):
        log.write(f"step {number}")
        assert process.stdout.readline() == f"step {number}\n"
    log.end()
    left, _ = process.communicate(timeout=60)
    assert (process.returncode, left) == (0, "")


def test_follow_is_of_one_pod(lab: Lab) -> None:
    job = applied(lab)
    for index in (0, 1):
        running(lab, job, index)
    code, said = lab.run("logs", "digits-ddp", "--follow", "--context", "lab")
    assert (code, "name one of 0, 1 with --pod" in said) == (2, True)


def ledger_of(lab: Lab, job: str) -> str:
    code, said = lab.run("logs", "digits-ddp", "--context", "lab")
    path = said.partition("the ledger has the end of each attempt: ")[2].partition(";")[0]
    assert (code, path.endswith("/attempts.jsonl")) == (1, True), said
    own = "".join(f"{json.dumps({**line, 'identity': job})}\n" for line in LINES)
    lab.cluster.kubelet.files[path] = own + own.replace(job, "digits-ddp-0ther000") + "cut off"
    return path


ACCOUNT = f"""\
  2026-11-26 08:00:00  ledger: attempt a1 began without a commit
  2026-11-26 08:03:00  ledger: attempt a1 ended with 204 (Hang: {EXIT_CODES[ExitCode.HANG].meaning}), with the commit of step 30
  2026-11-26 08:04:00  ledger: attempt b2 began with the commit of step 30
  2026-11-26 08:06:00  ledger: attempt b2 was last heard of, at step 55; it runs, or was killed
"""


def test_where_the_log_is_gone_the_ledger_is_read_in_a_pod_that_is_up(lab: Lab) -> None:
    job = applied(lab)
    path = ledger_of(lab, job)
    running(lab, job, 0)
    code, said = lab.run("logs", "digits-ddp", "--context", "lab", "--first-failure")
    assert (code, lab.cluster.kubelet.asked) == (1, [f"cat {path}"])
    assert ACCOUNT in said
    assert "kubectl run" not in said


def test_a_snapshot_has_the_ledger(lab: Lab) -> None:
    job = applied(lab)
    ledger_of(lab, job)
    running(lab, job, 0)
    file = lab.here.root / "snapshot.json"
    code, said = lab.run("collect", str(file), "--context", "lab")
    assert code == 0, said
    assert ACCOUNT in lab.run("logs", "digits-ddp", "--from", str(file), "--first-failure")[1]


def test_the_command_that_prints_the_ledger_mounts_its_claim(lab: Lab) -> None:
    """As kubectl itself understands it, in a pod like those of the run."""
    job = applied(lab)
    path = ledger_of(lab, job)
    said = lab.run("logs", "digits-ddp", "--context", "lab")[1]
    assert "the log is gone: none of its pods is here" in said
    [command] = [line for line in said.splitlines() if "kubectl run" in line]
    dry = command.replace(" --rm --attach --quiet", " --dry-run=client --output=json")
    ended = subprocess.run(["bash", "-c", dry], env=lab.environment, capture_output=True, text=True, check=True)
    pod: Data = json.loads(ended.stdout)
    [container], [volume] = pod["spec"]["containers"], pod["spec"]["volumes"]
    assert container["command"] == ["cat", path]
    assert volume["persistentVolumeClaim"] == {"claimName": "training-checkpoints"}
    [mount] = container["volumeMounts"]
    assert (mount["name"], mount["readOnly"], path.startswith(mount["mountPath"])) == (volume["name"], True, True)
    assert (pod["metadata"]["namespace"], pod["spec"]["restartPolicy"]) == ("training", "Never")


@pytest.mark.parametrize("rank", [0, 1])
def test_the_pod_of_a_rank(lab: Lab, rank: int) -> None:
    job = applied(lab)
    pods = [running(lab, job, index) for index in (0, 1)]
    for pod in pods:
        lab.cluster.kubelet.logs[pod] = Log([f"here is {pod}"])
    code, said = lab.run("logs", "digits-ddp", "--rank", str(rank), "--context", "lab")
    assert (code, f"here is {pods[rank]}" in said, f"here is {pods[1 - rank]}" in said) == (0, True, False), said
    code, said = lab.run("logs", "digits-ddp", "--rank", "2", "--context", "lab")
    assert (code, "digits-ddp has ranks 0 to 1" in said) == (2, True)


def test_the_pod_of_a_rank_that_is_gone_has_no_stand_in(lab: Lab) -> None:
    job = applied(lab)
    pod = running(lab, job, 1)
    lab.cluster.kubelet.logs[pod] = Log([f"here is {pod}"])
    said = lab.run("logs", "digits-ddp", "--rank", "0", "--context", "lab")[1]
    assert f"here is {pod}" not in said
    assert f"here is {pod}" in lab.run("logs", "digits-ddp", "--rank", "1", "--context", "lab")[1]
