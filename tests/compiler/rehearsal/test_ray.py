"""A RayJob is played by what KubeRay does: the submitter waits for the cluster, and Ray's own word ends the run."""

from __future__ import annotations

import copy
import json
import subprocess
from pathlib import Path
from typing import Any

from tests.compiler.rehearsal.stage import DIGITS, DIST, Manifest, of_kind, options, play

from trainwright.rehearsal.checks.machine import check_ray
from trainwright.rehearsal.networks.network import Loopback
from trainwright.rehearsal.processes.ray import agent_port, ask_at, write_ray
from trainwright.rehearsal.processes.ssh import write_program
from trainwright.rehearsal.scale import scale_down
from trainwright.rehearsal.stated.objects import find_objects, objects_in

RAY_TRAIN = DIST / "ray-l40s" / "ray" / "runs" / "ray-train.k8s.yaml"

HEAD = """
import http.server, json, os, pathlib
tried = pathlib.Path("/checkpoints/tried")
tried.write_text(str(int(tried.read_text() if tried.exists() else 0) + 1))
STATES = {"1": ("FAILED", "out of memory"), "2": ("SUCCEEDED", "Job finished successfully.")}

class Dashboard(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        status, message = STATES[tried.read_text()]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"status": status, "message": message}).encode())
    def log_message(self, *arguments):
        pass

http.server.ThreadingHTTPServer((os.environ["POD_IP"], 8265), Dashboard).serve_forever()
"""
"""Stands for the dashboard: of the first cluster it says that the job has failed."""
SUBMIT = """
import os, urllib.request
print(urllib.request.urlopen("http://" + os.environ["RAY_DASHBOARD_ADDRESS"]).read().decode())
"""
PROBE = {"httpGet": {"path": "/api/version", "port": 8265}, "timeoutSeconds": 20}


def ray_job() -> list[Manifest]:
    """Its pods run programs of this test, and it has no workers."""
    found = copy.deepcopy(objects_in(RAY_TRAIN))
    job = of_kind(found, "RayJob")
    job["metadata"]["annotations"] = {"ray.io/overwrite-container-cmd": "true"}
    spec: dict[str, Any] = job["spec"]
    spec["backoffLimit"] = 1
    spec["rayClusterSpec"].pop("workerGroupSpecs")
    [head] = spec["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"]
    head |= {"command": ["python", "-c", HEAD], "readinessProbe": PROBE, "livenessProbe": {**PROBE, "periodSeconds": 60}}
    head["env"].append({"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}})
    [submitter] = spec["submitterPodTemplate"]["spec"]["containers"]
    submitter["command"] = ["python", "-c", SUBMIT]
    return found


def test_ray_s_word_ends_it_and_a_new_cluster_is_tried(tmp_path: Path) -> None:
    outcome, recorder = play(ray_job(), tmp_path / "w")
    assert (outcome.status, outcome.reason, outcome.message) == ("Complete", "SUCCEEDED", "Job finished successfully.")
    assert [pod.slot.made.role for pod in recorder.started] == ["head", "submitter", "head", "submitter"]
    said = [json.loads(line)["status"] for index, line in recorder.lines if line.startswith("{")]
    assert said == ["FAILED", "SUCCEEDED"], "the submitter comes when the head is ready"


def test_a_job_that_ray_says_has_failed_fails(tmp_path: Path) -> None:
    found = ray_job()
    of_kind(found, "RayJob")["spec"]["backoffLimit"] = 0
    outcome, _ = play(found, tmp_path / "w")
    assert (outcome.status, outcome.reason, outcome.message) == ("Failed", "AppFailed", "out of memory")


def test_a_head_that_never_comes_up_is_not_tried_without_end(tmp_path: Path) -> None:
    """KubeRay makes it again at once, and has no limit."""
    found = ray_job()
    head = of_kind(found, "RayJob")["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    head["command"] = ["python", "-c", "raise SystemExit(3)"]
    outcome, recorder = play(found, tmp_path / "w")
    assert (outcome.status, outcome.reason) == ("Failed", "CrashLoop")
    assert "5 pods of head 0 ended before they were ready" in outcome.message
    assert {pod.slot.made.role for pod in recorder.started} == {"head"}


def test_a_node_of_ray_has_an_address_ports_and_sockets_of_its_own(tmp_path: Path) -> None:
    """Behind the operator's options, so that these count."""
    image, programs, folder = (tmp_path / name for name in ("my image", "programs", "short"))
    image.mkdir()
    programs.mkdir()
    write_program(image / "ray", 'echo "$TMPDIR" "$RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S" "$@"\n')
    write_ray(programs, str(image), "127.64.0.9", 12007, 12011, folder, 6.0)

    def said(*words: str, **stated: str) -> list[str]:
        environment = {"TMPDIR": "/long", **stated}
        run = subprocess.run([programs / "ray", *words], check=True, stdout=subprocess.PIPE, text=True, env=environment)
        return run.stdout.split()

    head = said("start", "--head", "--dashboard-host=0.0.0.0", "--block")
    assert head[:6] == [str(folder), "6", "start", "--head", "--dashboard-host=0.0.0.0", "--block"]
    assert {"--node-ip-address=127.64.0.9", "--port=12007", "--dashboard-host=127.64.0.9"} <= {*head[6:]}
    assert "--dashboard-agent-listen-port=12011" in head[6:]
    worker = said("start", "--address=127.64.0.9:12007")
    assert f"--temp-dir={folder}" in worker
    assert not [word for word in worker if word.startswith(("--port", "--dashboard-host"))]
    assert said("start", RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S="45")[1] == "45", "what the pod states"
    assert said("health-check", "--address", "127.64.0.9:12007") == ["/long", "health-check", "--address", "127.64.0.9:12007"]


def test_the_port_of_an_agent_is_read_where_it_is_stated() -> None:
    """The operator states one for each node; and each gets its own, for all of them listen on localhost too."""
    slots = scale_down(find_objects(objects_in(RAY_TRAIN)), options(nodes=1)).objects.slots
    head, worker, submitter = (slot.spec for slot in slots)
    assert agent_port(head) == agent_port(worker) == 52365
    assert "52365" in str(head.containers[0].args)
    own = Loopback()
    assert own.own_port(agent_port(head), 0) != own.own_port(agent_port(worker), 1)
    assert not submitter.starts_ray


def test_a_probe_with_wget_asks_where_dashboard_and_agent_listen_here() -> None:
    """Before Ray 2.53 KubeRay's probes ask localhost, where neither is in a rehearsal: each pod has an address of its own."""
    found = copy.deepcopy(objects_in(RAY_TRAIN))
    of_kind(found, "RayJob")["spec"]["rayClusterSpec"]["rayVersion"] = "2.52.0"
    head = find_objects(found).slots[0]
    probe = head.spec.containers[0].readiness_probe
    assert probe is not None
    assert probe.exec is not None
    own = Loopback()
    agent = own.own_port(agent_port(head.spec), 0)
    asked = ask_at("127.64.0.1", lambda port: own.port(port, 0), probe.exec.command[-1])
    assert f"http://127.64.0.1:{agent}/api/local_raylet_healthz" in asked
    assert "http://127.64.0.1:8265/api/gcs_healthz" in asked
    assert "localhost" not in asked


def test_without_ray_s_dashboard_it_is_told_what_to_install(tmp_path: Path) -> None:
    objects = find_objects(objects_in(RAY_TRAIN))
    (tmp_path / "bin").mkdir()
    [problem] = check_ray(objects, tmp_path / "bin")
    assert "pip install 'ray[default]'" in problem.fix
    assert not [*check_ray(find_objects(objects_in(DIGITS)), tmp_path / "bin")]


def test_fewer_nodes_of_ray_without_gpus() -> None:
    found = scale_down(find_objects(objects_in(RAY_TRAIN)), options(nodes=1)).objects
    assert [slot.name for slot in found.slots] == ["head 0", "worker 0", "submitter 0"]
    assert "--num-gpus=0 " in str(found.slots[1].spec.containers[0].args)
    assert found.leader.made.role == "submitter"
