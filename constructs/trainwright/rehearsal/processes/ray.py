"""What Ray needs where several of its nodes share one machine: an address, ports and sockets of each its own.

A node of Ray takes the machine's address, and its paths of sockets may not be long. So a small program of the same name adds the
options that say otherwise; of two the last one counts.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

from trainwright.rehearsal.processes.ssh import write_program
from trainwright.rehearsal.stated.environment import find_program
from trainwright.rehearsal.stated.kinds import PodSpec

GCS = 6379
"""Port of a head that states none (ray start --help)."""
_AGENT, _AGENT_STATED = 52365, re.compile(r"--dashboard-agent-listen-port[= ](\d+)")
_HERE = re.compile(r"\b(?:localhost|127\.0\.0\.1):(\d+)")
OBJECT_STORE_BYTES = 100_000_000
"""The nodes share this machine's /dev/shm."""
DRAIN_SECONDS = 30.0
"""How long a node that is told to end waits until nothing runs on it; a head that Ray Train was on waits all of it."""


def agent_port(spec: PodSpec) -> int:
    """Of a node of Ray, by what starts it. Its agent listens on localhost too, which pods share on loopback addresses."""
    stated = _AGENT_STATED.search(" ".join(word for one in spec.containers for word in (*one.command, *one.args)))
    return int(stated[1]) if stated else _AGENT


def ask_at(address: str, port: Callable[[int], int], text: str) -> str:
    """What a probe runs in a node of Ray, whose dashboard and agent are at the pod's address here and not on localhost too."""
    return _HERE.sub(lambda asked: f"{address}:{port(int(asked[1]))}", text)


def write_ray(programs: Path, path: str, address: str, gcs: int, agent: int, folder: Path, drain: float) -> None:
    """Write ``ray`` into a folder, if there is one.

    Args:
        programs: the folder.
        path: where the real one is looked for.
        address: of the pod.
        gcs: the port that the head listens on here.
        agent: the port of this node's agent.
        folder: for the node's sockets and logs, with a short path.
        drain: seconds, where the pod states none.
    """
    found = find_program("ray", path)
    if found is None:
        return
    ray = shlex.quote(found)
    node = (
        f"--node-ip-address={address} --temp-dir={folder} --object-store-memory={OBJECT_STORE_BYTES} --min-worker-port=0 "
        f"--max-worker-port=0 --metrics-export-port=0 --dashboard-agent-listen-port={agent} --disable-usage-stats"
    )
    variables = f"TMPDIR={folder} RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S=${{RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S:-{drain:g}}}"
    head = f"--port={gcs} --dashboard-host={address}"
    write_program(programs / "ray", f"""\
case "$1 $2" in
"start --head") {variables} exec {ray} "$@" {node} {head} ;;
"start "*) {variables} exec {ray} "$@" {node} ;;
esac
exec {ray} "$@"
""")
