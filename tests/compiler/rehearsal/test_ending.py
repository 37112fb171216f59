"""How pods end: exit codes, probes, signals, and no process is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.compiler.rehearsal.stage import JOB, NETWORK, PORT, Manifest, Recorder, job_set, manifests, of_kind, play
from tests.processes import PATIENCE_SECONDS, is_running

from trainwright.operators.ending import IndexDone, PodEnd, Replace
from trainwright.rehearsal import UsageError
from trainwright.rehearsal.processes.container import INIT
from trainwright.rehearsal.processes.container_init import KILLED
from trainwright.rehearsal.stated.pod import Pod

AT_ONCE = {"periodSeconds": 1, "failureThreshold": 1, "timeoutSeconds": 20}

LISTENS_AND_THEN_READYZ: dict[str, Any] = {
    "startupProbe": {
        "exec": {"command": [
            "python", "-c", "import os, time\nwhile not os.path.exists('/data/listens'): time.sleep(0.02)",
        ]},
        "timeoutSeconds": int(PATIENCE_SECONDS),
    },
    "readinessProbe": {"httpGet": {"path": "/readyz", "port": "http"}, "timeoutSeconds": 20},
}
"""For a program that says when it listens. One attempt of the first probe waits for that; only then the other's time begins."""

REHEARSE = """
import json, sys
from pathlib import Path
from trainwright.rehearsal import Options, rehearse
from tests.compiler.rehearsal.stage import Recorder
options = Options(network=sys.argv[3] or None)
sys.exit(rehearse(json.loads(sys.argv[1]), Path(sys.argv[2]), options, Recorder()).exit_code)
"""

ONCE = """
import os, pathlib, sys
tried = pathlib.Path("/data/tried-" + os.environ["JOB_COMPLETION_INDEX"])
if not tried.exists():
    tried.touch()
    sys.exit({code})
"""

LINGER = """
import os, pathlib, signal, subprocess, sys, time
def stop(*_):
    pathlib.Path("/data/told").touch()
    sys.exit({code})
signal.signal(signal.SIGTERM, stop)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
pathlib.Path("/data/pids").write_text(f"{{os.getpid()}} {{child.pid}}")
pathlib.Path("/data/pids").rename("/data/running")
while True:
    time.sleep(0.1)
"""


def until(condition: object, what: str) -> None:
    """Wait for a callable to become true."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, f"{what} did not happen within {PATIENCE_SECONDS:g} s"
        time.sleep(0.02)


@contextmanager
def rehearsing(found: list[Manifest], workspace: Path, network: str | None = NETWORK) -> Iterator[subprocess.Popen[bytes]]:
    """A rehearsal in a process of its own, whose pods write ``/data/running`` when they do."""
    command = [sys.executable, "-c", REHEARSE, json.dumps(found), str(workspace), network or ""]
    root = Path(__file__).resolve().parents[3]
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(root)}) as process:
        try:
            until((workspace / "claims" / "data" / "running").exists, "the start of the pod")
            yield process
        finally:
            with suppress(ProcessLookupError):
                process.kill()


def pids(workspace: Path) -> list[int]:
    return [int(pid) for pid in (workspace / "claims" / "data" / "running").read_text().split()]


def test_a_failed_index_gets_a_new_pod(tmp_path: Path) -> None:
    outcome, recorder = play(manifests(ONCE.format(code=1), pods=2), tmp_path / "w")
    assert outcome.status == "Complete"
    assert len(recorder.started) == 4
    assert len({pod.name for pod in recorder.started}) == 4
    assert [type(decision) for decision in recorder.decisions].count(Replace) == 2
    assert sorted((end.index, end.containers[0].exit_code) for end in outcome.pods) == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_a_success_is_final(tmp_path: Path) -> None:
    program = ONCE.format(code=202).replace("if not", 'if os.environ["JOB_COMPLETION_INDEX"] == "1" and not')
    outcome, recorder = play(manifests(program, pods=2), tmp_path / "w")
    assert outcome.status == "Complete"
    assert sorted(pod.index for pod in recorder.started) == [0, 1, 1]
    assert sum(isinstance(decision, IndexDone) for decision in recorder.decisions) == 1


def test_a_permanent_code_fails_the_job_and_ends_the_other_pods(tmp_path: Path) -> None:
    program = 'import os, sys, time\nif os.environ["JOB_COMPLETION_INDEX"] == "1":\n    sys.exit(10)\ntime.sleep(600)'
    outcome, _ = play(manifests(program, pods=2), tmp_path / "w")
    assert (outcome.status, outcome.reason, outcome.exit_code) == ("Failed", "PodFailurePolicy", 1)
    assert f"Container main for pod training/{JOB}-1-" in outcome.message
    assert outcome.message.endswith("failed with exit code 10 matching FailJob rule at index 0")
    assert [(end.index, end.containers[0].exit_code) for end in outcome.pods] == [(1, 10), (0, 128 + signal.SIGTERM)]


def test_used_up_retries_fail_the_job(tmp_path: Path) -> None:
    outcome, recorder = play(manifests("raise SystemExit(1)"), tmp_path / "w")
    assert outcome.reason == "MaxFailedIndexesExceeded"
    assert len(recorder.started) == 2


def test_a_restart_starts_no_more_pods_than_run_at_once(tmp_path: Path) -> None:
    class Counts(Recorder):
        most, running = 0, 0

        def pod_started(self, pod: Pod) -> None:
            super().pod_started(pod)
            self.running += 1
            self.most = max(self.most, self.running)

        def pod_ended(self, pod: Pod, end: PodEnd) -> None:
            self.running -= 1

    program = ONCE.format(code=10).replace("if not", 'if os.environ["JOB_COMPLETION_INDEX"] == "0" and not')
    found = manifests(f"{program}import time; time.sleep(0.3)", pods=4)
    of_kind(found, "Job")["spec"]["parallelism"] = 2
    recorder = Counts()
    outcome, _ = play(job_set(found, {"name": "node"}, failurePolicy={"maxRestarts": 1}), tmp_path / "w", recorder)
    assert (outcome.status, outcome.reason) == ("Complete", "AllJobsCompleted")
    assert recorder.most == 2
    assert sorted(pod.index for pod in recorder.started[-4:]) == [0, 1, 2, 3]


def test_a_success_policy_ends_the_pods_that_still_run(tmp_path: Path) -> None:
    program = 'import os, time\nif os.environ["JOB_COMPLETION_INDEX"] != "0":\n    time.sleep(600)'
    found = manifests(program, pods=2)
    of_kind(found, "Job")["spec"]["successPolicy"] = {"rules": [{"succeededIndexes": "0"}]}
    outcome, _ = play(found, tmp_path / "w")
    assert (outcome.status, outcome.reason) == ("Complete", "SuccessPolicy")
    assert [(end.index, end.containers[0].exit_code) for end in outcome.pods] == [(0, 0), (1, 128 + signal.SIGTERM)]


def test_the_deadline_of_the_job(tmp_path: Path) -> None:
    found = manifests("import time; time.sleep(600)")
    of_kind(found, "Job")["spec"]["activeDeadlineSeconds"] = 1
    outcome, _ = play(found, tmp_path / "w")
    assert (outcome.status, outcome.reason) == ("Failed", "DeadlineExceeded")


def test_the_time_limit_of_the_rehearsal(tmp_path: Path) -> None:
    outcome, _ = play(manifests("import time; time.sleep(600)"), tmp_path / "w", timeout_seconds=0.5)
    assert (outcome.status, outcome.reason, outcome.exit_code) == ("Failed", "Timeout", 1)


@pytest.mark.parametrize(("limit", "reason"), [({"ready_seconds": 0.2}, "PodNeverReady"), ({"timeout_seconds": 1.0}, "Timeout")])
def test_a_pod_that_is_told_to_end_before_its_containers_ran_has_failed(
    limit: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    never = {"exec": {"command": ["python", "-c", "raise SystemExit(1)"]}, "timeoutSeconds": 20}
    sidecar = {
        "name": "relay", "image": "x", "restartPolicy": "Always", "command": ["python", "-c", "import time; time.sleep(600)"],
        "startupProbe": never,
    }
    found = manifests("raise SystemExit(1)")
    of_kind(found, "Job")["spec"]["template"]["spec"]["initContainers"] = [sidecar]
    outcome, recorder = play(found, tmp_path / "w", **limit)
    assert (outcome.status, outcome.reason, outcome.exit_code) == ("Failed", reason, 1)
    assert not recorder.started
    assert [(one.name, one.exit_code) for one in outcome.pods[0].containers] == [("main", KILLED)]


def test_readiness_that_nobody_answers_says_who_listens(tmp_path: Path) -> None:
    program = (
        "import os, pathlib, socket, time\n"
        f"server = socket.create_server((os.environ['POD_IP'], {PORT + 1}))\n"
        "pathlib.Path('/data/listens').touch()\n"
        "time.sleep(600)"
    )
    outcome, recorder = play(manifests(program, **LISTENS_AND_THEN_READYZ), tmp_path / "w", ready_seconds=0.2)
    address = recorder.started[0].address
    assert (outcome.status, outcome.reason) == ("Failed", "PodNeverReady")
    assert f"{address}:{PORT}/readyz: connection refused: nothing listens there" in outcome.message
    if sys.platform == "linux":
        assert f"the container listens on {address}:{PORT + 1}" in outcome.message


def test_readiness_that_answers_with_an_error_says_so(tmp_path: Path) -> None:
    program = (
        "import http.server, os, pathlib\n"
        f"server = http.server.HTTPServer((os.environ['POD_IP'], {PORT}), http.server.BaseHTTPRequestHandler)\n"
        "pathlib.Path('/data/listens').touch()\n"
        "server.serve_forever()"
    )
    outcome, _ = play(manifests(program, **LISTENS_AND_THEN_READYZ), tmp_path / "w", ready_seconds=0.2)
    assert "HTTP probe failed with statuscode: 501" in outcome.message


@pytest.mark.parametrize("probe", [{"exec": {"command": ["python", "-c", "raise SystemExit(3)"]}}, {"tcpSocket": {"port": PORT}}])
def test_liveness_that_fails_ends_the_container(tmp_path: Path, probe: dict[str, object]) -> None:
    found = manifests("import time; time.sleep(600)", livenessProbe={**probe, **AT_ONCE})
    of_kind(found, "Job")["spec"]["backoffLimitPerIndex"] = 0
    outcome, recorder = play(found, tmp_path / "w")
    assert outcome.pods[0].containers[0].exit_code == 128 + signal.SIGTERM
    assert "Liveness probe failed once" in recorder.events[0]


def test_a_startup_probe_holds_the_others_back(tmp_path: Path) -> None:
    program = "import pathlib, time; time.sleep(1.5); pathlib.Path('/data/up').touch(); time.sleep(1.5)"
    is_up = {"exec": {"command": ["python", "-c", "import os, sys; sys.exit(not os.path.exists(sys.argv[1]))", "/data/up"]}}
    found = manifests(program, startupProbe={**is_up, "timeoutSeconds": 20}, livenessProbe={**is_up, **AT_ONCE})
    outcome, recorder = play(found, tmp_path / "w")
    assert outcome.status == "Complete"
    assert not recorder.events


def test_a_program_that_does_not_end_is_killed_after_its_grace_period(tmp_path: Path) -> None:
    program = (
        "import pathlib, signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "pathlib.Path('/data/on').touch()\n"
        "time.sleep(600)"
    )
    dead_once_on = {"command": ["python", "-c", "import os, sys; sys.exit(os.path.exists(sys.argv[1]))", "/data/on"]}
    found = manifests(program, livenessProbe={"exec": dead_once_on, **AT_ONCE})
    of_kind(found, "Job")["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 1
    of_kind(found, "Job")["spec"]["backoffLimitPerIndex"] = 0
    outcome, _ = play(found, tmp_path / "w")
    assert outcome.pods[0].containers[0].exit_code == KILLED


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_pods_in_order(tmp_path: Path, number: signal.Signals) -> None:
    with rehearsing(manifests(LINGER.format(code=210)), tmp_path / "w") as process:
        process.send_signal(number)
        assert process.wait(PATIENCE_SECONDS) == 143
    assert (tmp_path / "w" / "claims" / "data" / "told").exists()
    assert not any(map(is_running, pids(tmp_path / "w")))


def test_pods_that_succeed_while_they_are_told_to_end_complete_the_job(tmp_path: Path) -> None:
    with rehearsing(manifests(LINGER.format(code=0)), tmp_path / "w") as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_second_signal_does_not_wait_for_the_grace_period(tmp_path: Path) -> None:
    program = LINGER.format(code=0).replace("    sys.exit(0)\n", "")
    found = manifests(program)
    of_kind(found, "Job")["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 600
    with rehearsing(found, tmp_path / "w") as process:
        process.send_signal(signal.SIGTERM)
        until((tmp_path / "w" / "claims" / "data" / "told").exists, "SIGTERM in the pod")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 143
    assert not any(map(is_running, pids(tmp_path / "w")))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("network", [None, "loopback"])
def test_a_rehearsal_that_is_killed_takes_every_process_along(network: str | None, tmp_path: Path) -> None:
    with rehearsing(manifests(LINGER.format(code=0)), tmp_path / "w", network) as process:
        found = pids(tmp_path / "w")
        assert all(map(is_running, found))
        process.kill()
        process.wait(PATIENCE_SECONDS)
        until(lambda: not any(map(is_running, found)), "the end of the pod's processes")


CATCHES = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
print("up", flush=True)
while True:
    time.sleep(0.1)
"""


@pytest.mark.parametrize(("program", "code"), [("import time; time.sleep(600)", 128 + signal.SIGTERM), (CATCHES, 7)])
def test_a_container_is_told_to_end_by_its_input(program: str, code: int) -> None:
    """Before it has started, too: the number waits in the pipe."""
    init = [sys.executable, "-I", "-S", str(INIT), "", sys.executable, "-c", program]
    with subprocess.Popen(init, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        if program is CATCHES:
            assert running.stdout.readline() == b"up\n"
        running.stdin.write(bytes([signal.SIGTERM]))
        running.stdin.flush()
        assert running.wait(PATIENCE_SECONDS) == code


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_a_container_leaves_behind_ends_with_its_first_process(tmp_path: Path) -> None:
    play(manifests(LINGER.format(code=0).replace("while True:\n    time.sleep(0.1)\n", "")), tmp_path / "w")
    assert not any(map(is_running, pids(tmp_path / "w")))


@pytest.mark.parametrize(("code", "expected"), [("raise SystemExit(7)", 7), ("import os; os.kill(os.getpid(), 9)", KILLED)])
def test_exit_codes_are_the_ones_that_a_container_runtime_reports(code: str, expected: int) -> None:
    command = [sys.executable, "-I", "-S", str(INIT), "", sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.wait(PATIENCE_SECONDS) == expected


def test_one_workspace_serves_one_rehearsal_at_a_time(tmp_path: Path) -> None:
    with rehearsing(manifests(LINGER.format(code=0)), tmp_path / "w"), pytest.raises(UsageError, match="another rehearsal uses"):
        play(manifests(""), tmp_path / "w")


