"""A RayJob is played by what KubeRay does: the submitter waits for the cluster, and Ray's own word ends the run."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from tests.compiler.rehearsal.stage import DIST, Manifest, of_kind, play

from trainwright.rehearsal.objects import objects_in

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
    found = copy.deepcopy(objects_in(DIST / "ray-l40s" / "ray" / "runs" / "ray-train.k8s.yaml"))
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
