"""Starts the pods of a run in dist/ as containers of an image, as the kubelet and a container runtime would, to their end.

``python -m tools.images.play dist/CLUSTER/NAMESPACE/runs/RUN.k8s.yaml IMAGE`` needs root, buildah, crun, iproute2 and util-linux.
IMAGE may be a folder that has the files of one, and ``--supervisor IMAGE`` plays what the pods bring their supervisor from. Each
pod has a network namespace with an address of its own on one bridge; mounts, links and processes live in namespaces of this
program and end with it. Stand-ins: ``/etc/hosts`` for the cluster's DNS, a folder for each claim, and IMAGE for the image that
the pods name. Exit code 0 if every pod ended with 0 and had the rights that its YAML states, and no more.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from pathlib import Path
from typing import NoReturn

from tools.images.container import SECCOMP, Image, Place, bundle

from trainwright.rehearsal.observer import parse_event
from trainwright.rehearsal.setting import Workspace
from trainwright.rehearsal.stated.kinds import Probe
from trainwright.rehearsal.stated.objects import CannotWorkError, Objects, UsageError, find_objects, objects_in
from trainwright.rehearsal.stated.pod import create_pod

INSIDE = "TRAINWRIGHT_IN_OWN_NAMESPACES"
GATEWAY, FIRST, BITS = "10.77.0.1", IPv4Address("10.77.0.2"), 24
"""Addresses of the bridge and of the first pod, in namespaces that nothing else is in."""
PAUSE = ("unshare", "--net", "sleep", "infinity")
PROGRAMS = {"buildah": "buildah", "crun": "crun", "ip": "iproute2", "nsenter": "util-linux", "unshare": "util-linux"}
"""And Debian's packages that have them."""
HYBRID = Path("/sys/fs/cgroup/unified")
"""Where systemd mounts cgroup v2 beside v1, crun sets no limits: "cgroups in hybrid mode not supported"."""
USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Of an image that sets none (containerd, oci/spec.go)."""
POLL_SECONDS = 0.5
LAST_LINES = 40
TOLD = ("run_started", "evaluated", "pod_ended")
"""Events of the trainer that are shown of a log if all went well."""


@dataclass(slots=True)
class Running:
    """A container that was started."""

    place: Place
    process: subprocess.Popen[bytes]
    log: Path
    terminate: Sequence[str]
    """The command that sends it SIGTERM."""
    started: float = field(default_factory=time.monotonic)
    ready: float | None = None
    """Seconds until the readiness probe passed."""
    rights: dict[str, str] = field(default_factory=dict)
    """What the kernel says of the container's first process."""
    misses: int = 0
    polled: float = 0.0

    @property
    def name(self) -> str:
        return self.place.pod.host_name


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="play.py", description="Start the pods of a run as containers, to their end.")
    parser.add_argument("manifests", type=Path, help="a file of dist/ with a Job")
    parser.add_argument("image", help="an image that buildah has, or a folder with the files of one")
    parser.add_argument("--supervisor", metavar="IMAGE", help="the same, for the image that pods bring the supervisor from")
    parser.add_argument("--terminate", type=float, metavar="SECONDS", help="tell every pod to end, so long after all are ready")
    parser.add_argument("--folder", type=Path, help="for claims and logs, kept; a temporary one by default")
    parser.add_argument("--timeout", type=float, default=900.0, metavar="SECONDS")
    asked = parser.parse_args(words)
    if os.geteuid() != 0:
        raise UsageError("containers of another user, with networks of their own, need root: start this as root")
    missing = [package for program, package in PROGRAMS.items() if shutil.which(program) is None]
    if missing := missing if SECCOMP.exists() else [*missing, "containers-common"]:
        raise UsageError(f"what starts containers is missing: apt-get install {' '.join(missing)}")
    if INSIDE not in os.environ:
        in_own_namespaces(words)
    with ExitStack() as stack:
        folder = asked.folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="trainwright-play-")))
        workspace = Workspace(folder)
        stack.enter_context(workspace.opened())
        objects = find_objects(objects_in(asked.manifests))
        image = stack.enter_context(mounted(asked.image))
        brought = stack.enter_context(mounted(asked.supervisor)) if asked.supervisor else image
        say(f"{objects.slots[0].spec.main.image} is played by {asked.image}")
        make_bridge()
        pods = list(places(objects, workspace, brought.root, stack))
        for place in pods:
            bring(place, brought, folder)
        running = [start(place, image, folder, stack) for place in pods]
        return follow(running, time.monotonic() + asked.timeout, asked.terminate)


def in_own_namespaces(words: Sequence[str]) -> NoReturn:
    """Become this program once more, as the first process of new namespaces: when it ends, whatever it started ends."""
    command = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    environment = {**os.environ, INSIDE: "1"}
    os.execvpe(command[0], [*command, sys.executable, "-m", "tools.images.play", *words], environment)  # noqa: S606 - that is the job


@contextmanager
def mounted(name: str) -> Iterator[Image]:
    """The image's files and configuration. No container writes to them: where a root may be written, it is written here."""
    if Path(name).is_dir():
        yield Image(Path(name).absolute(), {"Env": [f"PATH={USUAL_PATH}"]})
        return
    container = output("buildah", "from", "--pull-never", name)
    try:
        settings = json.loads(output("buildah", "inspect", "--type", "image", name))["OCIv1"]["config"]
        yield Image(Path(output("buildah", "mount", container)), settings)
    finally:
        run("buildah", "umount", container)
        run("buildah", "rm", container)


def places(objects: Objects, workspace: Workspace, brought: Path, stack: ExitStack) -> Iterator[Place]:
    """Every pod of the run, each in a network namespace that a sleeping process holds, as a pod's pause container does."""
    pods = [create_pod(slot, str(FIRST + slot.number)) for slot in objects.slots]
    own = {pod.address: (pod.host_name, pod.slot.made.host) for pod in pods}
    domain = f"{objects.namespace}.svc.cluster.local"
    names = (f"{address}\t{long}.{domain} {long} {short}\n" for address, (short, long) in own.items())
    hosts = "".join(["127.0.0.1\tlocalhost\n", *names])
    for pod in pods:
        pause = subprocess.Popen(PAUSE)
        stack.callback(pause.kill)
        network = Path(f"/proc/{pause.pid}/ns/net")
        connect(pause.pid, pod.slot.number, pod.address)
        images = {volume.name: brought for volume in pod.spec.volumes if volume.other_source == "image"}
        yield Place(objects, pod, workspace.volumes(pod.name), network, hosts, images)


def make_bridge() -> None:
    attempt("umount", str(HYBRID))  # only here: the machine keeps it
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", "pods", "type", "bridge")
    run("ip", "address", "add", f"{GATEWAY}/{BITS}", "dev", "pods")
    run("ip", "link", "set", "pods", "up")


def connect(pid: int, index: int, address: str) -> None:
    """Give the namespace of a process the interface eth0, on the bridge."""
    own = os.readlink("/proc/self/ns/net")
    while os.readlink(f"/proc/{pid}/ns/net") == own:  # it has not left yet
        time.sleep(0.01)
    run("ip", "link", "add", f"pod{index}", "type", "veth", "peer", "name", "eth0", "netns", str(pid))
    run("ip", "link", "set", f"pod{index}", "master", "pods", "up")
    inside = ("nsenter", "--target", str(pid), "--net", "ip")
    run(*inside, "link", "set", "lo", "up")
    run(*inside, "address", "add", f"{address}/{BITS}", "dev", "eth0")
    run(*inside, "link", "set", "eth0", "up")


def bring(place: Place, image: Image, folder: Path) -> None:
    """What runs before the pod's main container, to its end. Raises :class:`UsageError` where it fails."""
    for one in place.bringing:
        made, started = bundle(one, image), time.monotonic()
        command = ["crun", f"--root={folder / 'crun'}", "run", f"--bundle={made}", f"{place.pod.name}-{one.name}"]
        ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if ended.returncode:
            raise UsageError(f"{one.name} of {place.pod.host_name} ended with {ended.returncode}: {ended.stderr.strip()}")
        say(f"{place.pod.host_name}: {one.name} ended with 0 after {time.monotonic() - started:.1f} s")


def start(place: Place, image: Image, folder: Path, stack: ExitStack) -> Running:
    made = bundle(place, image)
    log = folder / f"{place.pod.host_name}.log"
    command = ["crun", f"--root={folder / 'crun'}", "run", f"--bundle={made}", f"--pid-file={made / 'pid'}", place.pod.name]
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT)
    stack.callback(attempt, "crun", f"--root={folder / 'crun'}", "delete", "--force", place.pod.name)
    say(f"{place.pod.host_name}: started at {place.pod.address}")
    return Running(place, process, log, ["crun", f"--root={folder / 'crun'}", "kill", place.pod.name, "TERM"])


def follow(pods: Sequence[Running], deadline: float, terminate: float | None) -> int:
    """Probe until all have ended; says how."""
    told: float | None = None
    while any(pod.process.poll() is None for pod in pods) and time.monotonic() < deadline:
        for pod in pods:
            if pod.process.poll() is None:
                probe(pod)
        if terminate is not None and told is None and all(pod.ready is not None for pod in pods):
            told = time.monotonic() + terminate
        if told is not None and time.monotonic() >= told:
            terminate, told = None, None
            for pod in pods:
                attempt(*pod.terminate)
        time.sleep(POLL_SECONDS)
    failed = [problem for pod in pods for problem in problems(pod)]
    for pod in pods:
        lines = pod.log.read_text(encoding="utf-8", errors="replace").splitlines()
        events = (event for event in map(parse_event, lines) if event is not None and event.name in TOLD)
        for line in lines[-LAST_LINES:] if failed else [event.text for event in events]:
            say(f"  {pod.name}: {line}")
    say("; ".join(failed) if failed else f"all {len(pods)} pods ended with exit code 0")
    return 1 if failed else 0


def probe(pod: Running) -> None:
    """Readiness until it passes, then liveness at its period."""
    main = pod.place.pod.spec.main
    if pod.ready is None:
        if main.readiness_probe is None or answers(pod, main.readiness_probe):
            pod.ready = time.monotonic() - pod.started
            pod.rights = rights(int((pod.place.home / "pid").read_text()))
            found = ", ".join(f"{name} {value}" for name, value in pod.rights.items())
            say(f"{pod.name}: ready after {pod.ready:.1f} s; {found}")
    elif main.liveness_probe is not None and time.monotonic() - pod.polled > main.liveness_probe.period_seconds:
        pod.polled = time.monotonic()
        pod.misses = 0 if answers(pod, main.liveness_probe) else pod.misses + 1
        if pod.misses >= main.liveness_probe.failure_threshold:
            say(f"{pod.name}: the liveness probe failed {pod.misses} times")
            pod.process.kill()


def answers(pod: Running, probe: Probe) -> bool:
    """Whether an HTTP probe passes, from the bridge as from the node."""
    if probe.http_get is None:
        return True
    port = pod.place.pod.spec.main.port_number(probe.http_get.port)
    connection = http.client.HTTPConnection(pod.place.pod.address, port, timeout=probe.timeout_seconds)
    with suppress(OSError, http.client.HTTPException):
        connection.request("GET", probe.http_get.path)
        return 200 <= connection.getresponse().status < 400
    return False


def rights(pid: int) -> dict[str, str]:
    """What a process may do, as the kernel has it."""
    status = dict(line.partition(":\t")[::2] for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    roots = (line.split() for line in Path(f"/proc/{pid}/mountinfo").read_text().splitlines())
    options = next(fields[5] for fields in roots if fields[4] == "/")
    return {
        "uid": status["Uid"].split()[0], "gid": status["Gid"].split()[0], "groups": status["Groups"].strip() or "none",
        "capabilities": status["CapBnd"], "no_new_privs": status["NoNewPrivs"], "seccomp": status["Seccomp"],
        "root": "read-only" if "ro" in options.split(",") else "writable",
    }


def problems(pod: Running) -> Iterator[str]:
    code, wanted = pod.process.poll(), pod.place.security
    message = pod.place.termination_message.read_text(encoding="utf-8", errors="replace")
    say(f"{pod.name}: ended with {code} after {time.monotonic() - pod.started:.0f} s, with {len(message)} bytes of last words")
    say(f"{pod.name}: {message}")
    if code != 0:
        yield f"{pod.name} ended with {code}" if code is not None else f"{pod.name} did not end in time"
    if not pod.rights:
        yield f"{pod.name} was never ready"
        return
    stated = {
        "uid": str(wanted["runAsUser"]) if "runAsUser" in wanted else None,
        "no_new_privs": "1" if wanted.get("allowPrivilegeEscalation") is False else None,
        "root": "read-only" if wanted.get("readOnlyRootFilesystem") else None,
        "capabilities": "0" * 16 if "ALL" in (wanted.get("capabilities") or {}).get("drop", ()) else None,
        "seccomp": "2" if (wanted.get("seccompProfile") or {}).get("type") == "RuntimeDefault" else None,
    }
    for name, value in stated.items():
        if value is not None and pod.rights[name] != value:
            yield f"{pod.name} has {name} {pod.rights[name]}, and its YAML states {value}"


def say(text: str) -> None:
    print(text, flush=True)


def output(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def attempt(*command: str) -> int:
    return subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode


def run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (CannotWorkError, UsageError, subprocess.CalledProcessError, FileNotFoundError) as error:
        sys.exit(f"play.py: {error}")
