"""Pods with networks of their own, and what is the same on loopback addresses: real namespaces, real processes."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.compiler.rehearsal.stage import JOB, Manifest, Recorder, container_of, manifests, of_kind, play
from tests.compiler.rehearsal.test_pods import MEET, READY

from trainwright.rehearsal import UsageError
from trainwright.rehearsal.console import as_document
from trainwright.rehearsal.networks.bridge import open_network
from trainwright.rehearsal.networks.network import NetworkMode
from trainwright.rehearsal.processes.container import try_namespaces


@pytest.fixture(scope="module", autouse=True)
def namespaces() -> None:
    with open_network((), None, try_namespaces) as network:
        if not network.has_names:
            pytest.skip(f"needs network namespaces: {network.note}")


LOOK = """
import json, os, socket, sys
def write(path):
    try:
        with open(path, "w") as file:
            file.write("x")
    except OSError as error:
        return error.strerror
memory = os.statvfs("/dev/shm")
print(json.dumps({
    "user": [os.getuid(), os.getgid()], "host": socket.gethostname(), "addresses": socket.gethostbyname_ex(sys.argv[1])[2],
    "memory": memory.f_blocks * memory.f_frsize, "interfaces": [name for _, name in socket.if_nameindex()],
    "home": write(os.environ["HOME"] + "/x"), "claim": write("/data/x"), "files": write("/code/x"), "tmp": write("/tmp/x"),
    "shm": write("/dev/shm/x"), "master": os.environ["MASTER_ADDR"], "interface": os.environ["NCCL_SOCKET_IFNAME"],
}))
"""
NAME = f"{JOB}-0.{JOB}.training.svc.cluster.local"


def looking(**security: Any) -> list[Manifest]:
    found = manifests(LOOK, args=[NAME], securityContext=security)
    container_of(found)["env"] += [{"name": "MASTER_ADDR", "value": NAME}, {"name": "NCCL_SOCKET_IFNAME", "value": "bond0"}]
    return found


def look(found: list[Manifest], folder: Path) -> Any:
    outcome, recorder = play(found, folder, network="own")
    assert outcome.status == "Complete", recorder.lines
    return json.loads(recorder.said(0)[-1])


def test_a_pod_has_what_its_manifest_states(tmp_path: Path) -> None:
    found = looking(readOnlyRootFilesystem=True, runAsUser=4711, runAsGroup=12)
    of_kind(found, "Job")["spec"]["template"]["spec"]["volumes"].append(
        {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}
    )
    container_of(found)["volumeMounts"].append({"name": "memory", "mountPath": "/dev/shm"})
    assert look(found, tmp_path / "w") == {
        "user": [4711, 12], "host": f"{JOB}-0", "addresses": ["10.244.0.1"], "memory": 16 << 20, "interfaces": ["lo", "eth0"],
        "home": "Read-only file system", "claim": None, "files": "Read-only file system", "tmp": "Read-only file system",
        "shm": None, "master": NAME, "interface": "eth0",
    }  # fmt: skip


def test_a_pod_has_what_a_runtime_gives_where_nothing_is_stated(tmp_path: Path) -> None:
    found = looking()
    container_of(found)["volumeMounts"][1]["readOnly"] = True
    said = look(found, tmp_path / "w")
    assert said["memory"] == 64 << 20
    assert (said["claim"], said["tmp"], said["home"]) == ("Read-only file system", None, None)


@pytest.mark.parametrize("network", ["own", "loopback"])
def test_two_rehearsals_at_once(network: NetworkMode, tmp_path: Path) -> None:
    found = manifests(MEET, pods=2, **READY)
    container_of(found)["env"] += [
        {"name": "OTHER", "value": "1"}, {"name": "PEER", "value": f"http://{JOB}-$(OTHER).{JOB}.training:9400"},
    ]
    with ThreadPoolExecutor() as pool:
        both = [pool.submit(play, found, tmp_path / name, network=network) for name in "ab"]
        for outcome, recorder in (one.result() for one in both):
            assert outcome.status == "Complete"
            assert recorder.said(1) == ["step", "1 met 1"]


def test_a_pod_that_is_published_when_it_is_ready_has_a_name_from_then_on(tmp_path: Path) -> None:
    program = """
import http.server, os, pathlib, socket, threading, time
done = pathlib.Path("/data/done")
if os.environ["JOB_COMPLETION_INDEX"] == "0":
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if pathlib.Path("/data/asked").exists() else 503)
            self.end_headers()
    threading.Thread(target=http.server.HTTPServer(("", 9400), Handler).serve_forever, daemon=True).start()
    while not done.exists():
        time.sleep(0.01)
else:
    host = socket.gethostname()[:-1]
    for attempt in range(1 << 20):
        try:
            print(attempt > 0, socket.gethostbyname(f"{host}0.{host[:-1]}"), flush=True)
            break
        except OSError:
            pathlib.Path("/data/asked").touch()
            time.sleep(0.01)
    done.touch()
"""
    found = manifests(program, pods=2, readinessProbe={"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 1})
    of_kind(found, "Service")["spec"]["publishNotReadyAddresses"] = False
    _, recorder = play(found, tmp_path / "w", network="own")
    assert recorder.said(1) == ["True 10.244.0.1"]


TOGETHER = """
import json, os, pathlib, socket, sys, time
index, patience = int(os.environ["JOB_COMPLETION_INDEX"]), float(sys.argv[2])
def say(event, **fields):
    print(json.dumps({"event": event, "level": "info", **fields}), flush=True)
if index == 0:
    server = socket.create_server(("", 29500))
    peer, _ = server.accept()
    say("run_started", step=0, target_samples=96, global_batch=8)
else:
    while True:
        try:
            peer = socket.create_connection((sys.argv[1], 29500), 1)
            break
        except OSError:
            time.sleep(0.02)
peer.settimeout(patience)
for step in range(1, 13):
    time.sleep(0.05)
    try:
        peer.sendall(b"x")
        if peer.recv(1) != b"x":
            raise OSError("the end of the connection")
    except OSError:
        sys.exit(202)
    if index == 0:
        say("step", step=step, loss=1 / step)
        cut = pathlib.Path("/data/cut")
        while step == 4 and "/undisturbed/" not in str(cut) and not cut.exists():
            time.sleep(0.01)
"""
"""Waits at step 4 until it is cut off, else it may be done before."""


class Cuts(Recorder):
    def disturbed(self, what: str) -> None:
        (self.openings[-1].setting.workspace.claims / "data" / "cut").touch()


@pytest.mark.parametrize(("patience", "codes"), [(1.0, {202}), (60.0, set[int]())])
def test_a_pod_that_is_cut_off(patience: float, codes: set[int], tmp_path: Path) -> None:
    found = manifests(TOGETHER, pods=2, args=[NAME, str(patience)])
    seconds = 30.0 if codes else 0.5
    outcome, _ = play(found, tmp_path / "w", Cuts(), faults=(("partition", "node-1@4"),), parted_seconds=seconds, network="own")
    said = as_document(outcome)
    [made] = said["faults"]
    assert said["status"] == "Complete"
    assert {code for one in said["pods"] for code in one["exit_codes"].values()} - {0} == codes
    assert {*made["ended"]} == {f"node {index} with {code}" for code in codes for index in (0, 1)}
    assert said["undisturbed"]["equal"]


def test_what_shares_a_network_cannot_be_parted(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--partition: the pods would be on loopback addresses: as you asked"):
        play(manifests(TOGETHER, pods=2), tmp_path, faults=(("partition", "node-1@4"),), network="loopback")


WITHOUT = """
import ctypes, os
from trainwright.rehearsal import UsageError
from trainwright.rehearsal.networks.bridge import open_network
from trainwright.rehearsal.processes.container import try_namespaces
assert ctypes.CDLL(None).unshare(0x10000000) == 0
with open("/proc/sys/user/max_user_namespaces", "w") as file:
    file.write("0")
with open_network([29500], None, try_namespaces) as network:
    print(network.note, network.port(29500) != 29500)
try:
    open_network([], "own", try_namespaces).__enter__()
except UsageError as error:
    print(error)
"""


def test_where_there_are_no_namespaces_it_says_so() -> None:
    said = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True).stdout.splitlines()
    why = "this machine gives pods no network namespaces (unshare: No space left on device)"
    assert said == [f"on loopback addresses: {why} True", f"--network own: {why}; write --network loopback, or leave it out"]
