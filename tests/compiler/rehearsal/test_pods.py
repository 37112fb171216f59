"""Real pods: what a program finds in them is what the manifests promise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.compiler.example import Data, command, compiled
from tests.compiler.rehearsal.stage import JOB, PORT, Recorder, container_of, job_set, manifests, of_kind, play, stated

from trainwright.rehearsal import UsageError
from trainwright.rehearsal.networks.network import NetworkMode
from trainwright.rehearsal.processes.ssh import write_program

MEET = """
import http.server, json, os, pathlib, socket, sys, threading, time, urllib.request

index, ip = os.environ["JOB_COMPLETION_INDEX"], os.environ["POD_IP"]

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path in ("/readyz", "/name") else 404)
        self.end_headers()
        self.wfile.write(index.encode())
        met.set()
    def log_message(self, *arguments):
        pass

met = threading.Event()
server = http.server.ThreadingHTTPServer((ip, PORT), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(json.dumps({"event": "step", "level": "info", "step": 1, "loss": 2.5}), flush=True)
while True:
    try:
        peer = urllib.request.urlopen(os.environ["PEER"] + "/name", timeout=5).read().decode()
        break
    except OSError:
        time.sleep(0.05)
pathlib.Path("/data", f"met-{index}").write_text(peer)
while len(list(pathlib.Path("/data").glob("met-*"))) < 2:
    time.sleep(0.05)
print(f"{index} met {peer}", flush=True)
""".replace("PORT)", f"{PORT})")

READY = {"readinessProbe": {"httpGet": {"path": "/readyz", "port": "http"}}}


@pytest.mark.parametrize("network", [None, "loopback"])
def test_two_pods_find_each_other_by_name(network: NetworkMode | None, tmp_path: Path) -> None:
    found = manifests(MEET, pods=2, **READY)
    container_of(found)["env"] += [
        {"name": "OTHER", "value": "1"},
        {"name": "PEER", "value": f"http://{JOB}-$(OTHER).{JOB}.training.svc.cluster.local:{PORT}"},
    ]
    outcome, recorder = play(found, tmp_path / "w", network=network)
    assert (outcome.status, outcome.reason, outcome.exit_code) == ("Complete", "CompletionsReached", 0)
    assert recorder.said(0) == ["step", "0 met 1"]
    assert recorder.said(1) == ["step", "1 met 1"]
    assert outcome.training.first_loss == 2.5
    assert {pod.index for pod in recorder.ready} <= {0, 1}
    assert len({pod.address for pod in recorder.started}) == 2
    assert all(pod.name.startswith(f"{JOB}-{pod.index}-") for pod in recorder.started)


def test_a_grpc_probe_counts_as_passed(tmp_path: Path) -> None:
    program = (
        "import os, pathlib, time\n"
        "if '-second-' in os.environ['HOSTNAME']:\n    pathlib.Path('/data/second').touch()\n"
        "while not os.path.exists('/data/second'):\n    time.sleep(0.02)"
    )
    probe = {"grpc": {"port": PORT}}
    found = manifests(program, startupProbe=probe, readinessProbe=probe, livenessProbe={**probe, "periodSeconds": 1})
    waits = {"name": "second", "dependsOn": [{"name": "first", "status": "Ready"}]}
    outcome, recorder = play(job_set(found, {"name": "first"}, waits), tmp_path / "w")
    assert (outcome.status, outcome.reason) == ("Complete", "AllJobsCompleted")
    assert [pod.slot.made.role for pod in recorder.ready] == ["first", "second"]
    assert "probes: gRPC probes are not polled, and count as passed" in list(stated(recorder))


REPORT = """
import json, os, pathlib, sys
here = lambda path: pathlib.Path(path)
here("/dev/termination-log").write_text("said")
here("/tmp/scratch").write_text("x")
print(json.dumps({
    "env": dict(os.environ), "arguments": sys.argv[1:], "note": here("/code/note").read_text(),
    "left": sorted(path.name for path in here("/data").iterdir()), "scratch": sorted(os.listdir("/tmp")),
    "directory": os.getcwd(),
}))
here("/data/trace-" + os.environ["JOB_COMPLETION_INDEX"]).touch()
"""


def report(recorder: Recorder, index: int = 0) -> Any:
    return json.loads(recorder.said(index)[-1])


def test_environment_paths_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAK", "of the caller's shell")
    found = manifests(REPORT, args=["--data=/data/x", "$(JOB_COMPLETION_INDEX)", "/database"])
    container_of(found)["env"] += [
        {"name": "HOME", "value": "/tmp"},
        {"name": "GLOO_SOCKET_IFNAME", "value": "eth7"},
        {"name": "LISTS", "value": "/data/a:/code"},
    ]
    outcome, recorder = play(found, tmp_path / "w")
    told, root = report(recorder), tmp_path / "w"
    pod = recorder.started[0]
    assert told["arguments"] == [f"--data={root}/claims/data/x", "0", "/database"]
    assert told["note"] == f"{root}/claims/data/x"
    assert told["env"]["LISTS"] == f"{root}/claims/data/a:{root}/pods/{pod.name}/files/main/code"
    assert told["env"]["HOME"] == told["env"]["TMPDIR"] == f"{root}/pods/{pod.name}/tmp"
    assert told["env"]["HOSTNAME"] == f"{JOB}-0"
    assert told["env"]["GLOO_SOCKET_IFNAME"] == recorder.openings[0].setting.network.interface
    assert "LEAK" not in told["env"]
    assert told["scratch"] == ["scratch"]
    assert not told["left"]
    assert outcome.pods[0].containers[0].message == "said"
    assert (root / "pods" / pod.name / "main.log").read_text().strip() == recorder.said(0)[-1]


STARTED = """#!/bin/sh
echo "started by its name"
"""


@pytest.mark.parametrize("mode", ["0555", None])
@pytest.mark.parametrize("folders", [{}, {"file_folders": ["/app"]}], ids=["alone", "folder"])
def test_a_file_of_a_run_is_started_by_its_name_where_its_mode_lets_it(tmp_path: Path, mode: str | None, folders: Data) -> None:
    run: Data = {"topology": {"kind": "independent", "nodes": 1, "gpus_per_node": 0}, "files": {"/app/start.sh": STARTED}}
    # A program starts the file; in the command itself, TW418 would have refused it.
    starts = command("python3", "-c", "import os; os.execl('/app/start.sh', 'start.sh')")
    found = compiled({**starts, **run, **folders, **({"file_modes": {"/app/start.sh": mode}} if mode else {})})
    outcome, recorder = play(list(found.manifests), tmp_path / "w")
    if mode:
        assert outcome.status == "Complete"
        assert recorder.said(0) == ["started by its name"]
    else:
        assert "Permission denied" in recorder.said(0)[-1]


def test_claims_stay_between_rehearsals_and_scratch_does_not(tmp_path: Path) -> None:
    spec = of_kind(found := manifests(REPORT), "Job")["spec"]["template"]["spec"]
    spec["volumes"].append({"name": "scratch", "emptyDir": {}})
    container_of(found)["volumeMounts"].append({"name": "scratch", "mountPath": "/tmp"})
    play(found, tmp_path / "w")
    _, second = play(found, tmp_path / "w")
    assert report(second)["left"] == ["trace-0"]
    assert report(second)["scratch"] == ["scratch"]
    _, third = play(found, tmp_path / "w", fresh=True)
    assert report(third)["left"] == []


def test_fresh_leaves_claims_alone_that_are_read_only(tmp_path: Path) -> None:
    found = manifests("import os; print(os.listdir('/data'))")
    container_of(found)["volumeMounts"][1]["readOnly"] = True
    play(found, tmp_path / "w")
    (tmp_path / "w" / "claims" / "data" / "set.csv").touch()
    _, recorder = play(found, tmp_path / "w", fresh=True)
    assert recorder.said(0) == ["['set.csv']"]


def test_a_folder_stands_for_an_object_store(tmp_path: Path) -> None:
    program = """
import os, pathlib
place = pathlib.Path(os.environ["TRAINWRIGHT_CHECKPOINT_DIRECTORY"])
place.mkdir(parents=True, exist_ok=True)
print(place, sorted(path.name for path in place.iterdir()))
(place / "step-1").touch()
"""
    found = manifests(program)
    container_of(found)["env"].append({"name": "TRAINWRIGHT_CHECKPOINT_DIRECTORY", "value": "s3://example.bucket/vision/run"})
    play(found, tmp_path / "w")
    folder = tmp_path / "w" / "stores" / "example.bucket" / "vision" / "run"
    for fresh, left in ((False, ["step-1"]), (True, [])):
        _, recorder = play(found, tmp_path / "w", fresh=fresh)
        assert recorder.said(0) == [f"{folder} {left}"]
        assert any(text.startswith("object store") and "s3://example.bucket" in text for text in stated(recorder))


def test_a_folder_of_the_caller_s_stands_for_a_path(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "x.csv").touch()
    _, recorder = play(manifests("import os; print(os.listdir('/data'))"), tmp_path / "w", mounts={"/data": tmp_path / "set"})
    assert recorder.said(0) == ["['x.csv']"]
    assert f"folder: /data -> {tmp_path}/set, as you asked" in list(stated(recorder))


def test_sub_paths_items_and_the_downward_api(tmp_path: Path) -> None:
    program = "import pathlib; print(*(pathlib.Path(p).read_text() for p in ('/etc/one', '/pod/index', '/code/sub/note')))"
    found = manifests(program)
    spec = of_kind(found, "Job")["spec"]["template"]["spec"]
    spec["volumes"][0]["configMap"]["items"] = [{"key": "program.py", "path": "program.py"}, {"key": "note", "path": "sub/note"}]
    field = {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}
    spec["volumes"].append({"name": "pod", "downwardAPI": {"items": [{"path": "index", "fieldRef": field}]}})
    container_of(found)["volumeMounts"] += [
        {"name": "code", "mountPath": "/etc/one", "subPath": "sub/note"}, {"name": "pod", "mountPath": "/pod"},
    ]
    _, recorder = play(found, tmp_path / "w")
    data = tmp_path / "w" / "claims" / "data"
    assert recorder.said(0) == [f"{data}/x 0 {data}/x"]


def test_init_containers_run_first_and_one_that_fails_ends_the_pod(tmp_path: Path) -> None:
    found = manifests("print('main')")
    spec = of_kind(found, "Job")["spec"]["template"]["spec"]
    spec["initContainers"] = [
        {"name": name, "command": ["python", "-c", f"print('{name}')"]} for name in ("one", "two")
    ]
    _, recorder = play(found, tmp_path / "w")
    assert recorder.said(0) == ["one", "two", "main"]
    spec["initContainers"][0]["command"][2] = "raise SystemExit(10)"
    of_kind(found, "Job")["spec"]["backoffLimitPerIndex"] = 0
    outcome, recorder = play(found, tmp_path / "w")
    assert outcome.status == "Failed"
    assert recorder.said(0) == []


def test_the_end_of_the_log_stands_in_for_a_termination_message(tmp_path: Path) -> None:
    found = manifests("print('why'); raise SystemExit(10)", terminationMessagePolicy="FallbackToLogsOnError")
    outcome, _ = play(found, tmp_path / "w")
    assert outcome.pods[0].containers[0].message == "why"


def test_a_secret_s_value_is_the_caller_s_and_is_not_rewritten(tmp_path: Path) -> None:
    secret = {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "token"}}}
    found = manifests("import os; print(os.environ['TOKEN'])")
    container_of(found)["env"].append(secret)
    _, recorder = play(found, tmp_path / "w", environment={"TOKEN": "/data/x", "PATH": "/usr/bin:/bin"})
    assert recorder.said(0) == ["/data/x"]
    assert "secrets: TOKEN has the value of your own environment" in list(stated(recorder))


def test_more_indexes_than_may_run_at_once(tmp_path: Path) -> None:
    found = manifests("print('x')", pods=3)
    of_kind(found, "Job")["spec"]["parallelism"] = 1
    outcome, recorder = play(found, tmp_path / "w")
    assert outcome.status == "Complete"
    assert [pod.index for pod in recorder.started] == [0, 1, 2]


def test_a_folder_of_somebody_else_s_is_refused(tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    with pytest.raises(UsageError, match="is not a rehearsal's folder"):
        play(manifests(""), tmp_path, fresh=True)
    assert (tmp_path / "precious").exists()


@pytest.mark.parametrize("name", ["a b", "a(2)", "a'b", "$a"])
def test_a_folder_that_no_command_takes_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"in it, and paths of pods become parts of commands: .* --workspace DIR"):
        play(manifests(""), tmp_path / name)
    assert not (tmp_path / name).exists()


def test_a_folder_in_another_script_is_taken(tmp_path: Path) -> None:
    outcome, recorder = play(manifests("print('x')"), tmp_path / "José-1.2_日本")
    assert (outcome.status, recorder.said(0)) == ("Complete", ["x"])


def test_a_container_whose_program_is_in_its_image_only_is_left_out(tmp_path: Path) -> None:
    found = manifests("print('x')")
    logs = {"name": "logs", "image": "registry.example.com/logs:1"}
    of_kind(found, "Job")["spec"]["template"]["spec"]["containers"].append(logs)
    outcome, recorder = play(found, tmp_path / "w")
    assert outcome.status == "Complete"
    assert "left out: container logs: its program is only in image registry.example.com/logs:1" in list(stated(recorder))


@pytest.mark.parametrize("side", [
    {"command": ["/opt/tools/relay"]},
    {"command": ["./relay"], "workingDir": "/opt/tools"},
    {"command": ["relay"], "env": [{"name": "PATH", "value": "/opt/tools:/usr/bin:/bin"}]},
])
def test_a_folder_brings_the_program_of_a_container(side: Data, tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    write_program(tmp_path / "tools" / "relay", "echo relayed\n")
    found = manifests("print('x')")
    of_kind(found, "Job")["spec"]["template"]["spec"]["containers"].append({"name": "side", "image": "x", **side})
    _, recorder = play(found, tmp_path / "w", mounts={"/opt/tools": tmp_path / "tools"})
    assert sorted(recorder.said(0)) == ["relayed", "x"]
    _, recorder = play(found, tmp_path / "w")
    assert recorder.said(0) == ["x"]


def test_an_init_container_brings_the_program_of_another(tmp_path: Path) -> None:
    found = manifests("print('x')")
    spec = of_kind(found, "Job")["spec"]["template"]["spec"]
    tools = {"volumeMounts": [{"name": "tools", "mountPath": "/opt/tools"}]}
    spec["volumes"].append({"name": "tools", "emptyDir": {}})
    bring = "printf '#!/bin/sh\\necho relayed' > /opt/tools/relay; chmod +x /opt/tools/relay"
    spec["initContainers"] = [{"name": "bring", "image": "x", "command": ["sh", "-c", bring], **tools}]
    spec["containers"].append({"name": "side", "image": "x", "command": ["/opt/tools/relay"], **tools})
    _, recorder = play(found, tmp_path / "w")
    assert sorted(recorder.said(0)) == ["relayed", "x"]


def test_a_second_container_runs_beside_the_first(tmp_path: Path) -> None:
    found = manifests("print('x')")
    side = {"name": "side", "image": "x", "command": ["python", "-c", "print('beside'); raise SystemExit(3)"]}
    of_kind(found, "Job")["spec"]["template"]["spec"]["containers"].append(side)
    of_kind(found, "Job")["spec"]["backoffLimitPerIndex"] = 0
    outcome, recorder = play(found, tmp_path / "w")
    assert sorted(recorder.said(0)) == ["beside", "x"]
    assert [(one.name, one.exit_code) for one in outcome.pods[0].containers] == [("main", 0), ("side", 3)]
