"""What a RayJob says of its run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import yaml

from trainwright.findings.locate import at, escape
from trainwright.objects.fields import items, mapping, text, texts, whole
from trainwright.operators.kuberay.cluster import HEAD, HEAD_POD, SUBMITTER, WORKER, group_at, ray_version
from trainwright.operators.kuberay.pods import PORTS
from trainwright.operators.operator import Around
from trainwright.operators.said import GPU, Part, Said, asked, count, scalar, stated

CLUSTER = "/spec/rayClusterSpec"
_OURS = frozenset({"dashboard-host", "num-gpus"})
"""Options of Ray that the plan states."""
_BY_ITSELF = {
    "block": "true", "dashboard-port": str(PORTS["dashboard"]), "metrics-export-port": str(PORTS["metrics"]),
    "port": str(PORTS["gcs-server"]),
}  # fmt: skip
"""What the operator, or Ray, says of others where nothing is said."""


def said(manifest: Mapping[str, Any], around: Around) -> Said:
    """The first group of workers has the ranks, and so has a head that is like them, or alone."""
    if not mapping(manifest, CLUSTER):
        raise LookupError(
            "it goes to a RayCluster that is there, and runs have clusters of their own; write it with rayClusterSpec"
        )
    groups = [
        Part(WORKER if not number else text(one, "/groupName", f"group-{number}"), max(count(one, "/replicas"), 1) * _hosts(one),
             group_at(number), mapping(one, "/template"), ranks=not number, further=bool(number), container="ray-worker",
             marks={"ray.io/group": text(one, "/groupName")})
        for number, one in items(manifest, f"{CLUSTER}/workerGroupSpecs")
    ]  # fmt: skip
    holds = not groups or _is_like(manifest, groups[0].template)
    head = Part(HEAD, 1, HEAD_POD, mapping(manifest, HEAD_POD), ranks=holds, container="ray-head")
    words: dict[str, tuple[Any, str]] = dict(stated(manifest, {"/spec/backoffLimit": "/restarts"}))
    (entry, said_at), (packages, packed_at) = _submission(manifest)
    if entry:
        words |= _driver(entry, said_at)
    if holds:
        words["/topology/head_is_node"] = (True, f"{CLUSTER}/headGroupSpec")
    version = text(manifest, f"{CLUSTER}/rayVersion")
    tag = ray_version(text(head.template, "/spec/containers/0/image"), None)
    if version and (tag is None or tag.value != version):
        words["/topology/version"] = (version, f"{CLUSTER}/rayVersion")
    if env := _runtime_env(packages):
        words["/topology/runtime_env"] = (env, packed_at)
    for role, pointer in (
        (HEAD, f"{CLUSTER}/headGroupSpec"),
        *((one.role, one.pointer.removesuffix("/template")) for one in groups),
    ):
        options = {name: scalar(value) for name, value in mapping(manifest, f"{pointer}/rayStartParams").items()}
        own = {name: value for name, value in options.items() if name not in _OURS and value != _BY_ITSELF.get(name)}
        if own:
            words[f"/topology/start_params/{role}"] = (own, f"{pointer}/rayStartParams")
        hosts = _hosts(mapping(manifest, pointer))
        least, most = whole(manifest, f"{pointer}/minReplicas"), whole(manifest, f"{pointer}/maxReplicas")
        autoscaled = at(manifest, f"{CLUSTER}/enableInTreeAutoscaling") is True or (least, most) != (most, most)
        if role != HEAD and autoscaled and least is not None and most:
            bounds = {"min_nodes": least * hosts, "max_nodes": most * hosts}
            words[f"/topology/autoscaling/{role}"] = (bounds, f"{pointer}/minReplicas")
    slices = ((number, _hosts(one)) for number, one in items(manifest, f"{CLUSTER}/workerGroupSpecs"))
    merged = {
        f"{group_at(number).removesuffix('/template')}/numOfHosts": f"the {hosts} hosts of a replica become replicas, which are"
        for number, hosts in slices
        if not number and hosts > 1
    }
    return Said("ray-job", (*groups[:1], head, *groups[1:]), ("ray",), words, merged=merged)


def _is_like(manifest: Mapping[str, Any], worker: Mapping[str, Any]) -> bool:
    """Whether the head has the GPUs and the nodes of a worker, and Ray may place ranks on it."""
    head, options = mapping(manifest, HEAD_POD), mapping(manifest, f"{CLUSTER}/headGroupSpec/rayStartParams")
    nodes = [mapping(one, "/spec/nodeSelector") for one in (head, worker)]
    closed = "0" in (str(options.get("num-gpus")), str(options.get("num-cpus")))
    return bool(_gpus(head)) and _gpus(head) == _gpus(worker) and nodes[0] == nodes[1] and not closed


def _gpus(template: Mapping[str, Any]) -> dict[str, str]:
    amounts = asked(at(template, "/spec/containers/0"))
    return {name: str(count) for name, count in amounts.items() if GPU.fullmatch(name) and str(count) != "0"}


def _hosts(group: Mapping[str, Any]) -> int:
    """Pods of one replica, as a slice of TPUs has several."""
    return max(count(group, "/numOfHosts"), 1)


def _submission(manifest: Mapping[str, Any]) -> tuple[tuple[str, str], tuple[str, str]]:
    """The entrypoint and Ray's environment for it, and where each stands.

    KubeRay's small submitter reads neither in the RayJob: its own words are ``/submitter [--OPTION VALUE]... -- COMMAND``
    (ray-operator/rayjob-submitter/cmd/main.go).
    """
    container = f"{SUBMITTER}/spec/containers/0"
    args = texts(manifest, f"{container}/args")
    words = [*texts(manifest, f"{container}/command"), *args]
    if words[:1] != ["/submitter"] or "--" not in words:
        return (text(manifest, ENTRY), ENTRY), (text(manifest, RUNTIME_ENV), RUNTIME_ENV)
    place, end = f"{container}/{'args' if args else 'command'}", words.index("--")
    options = [part for word in words[:end] for part in (word.split("=", 1) if word.startswith("-") else [word])]
    packages = next((value for name, value in pairwise(options) if name.lstrip("-") == "runtime-env-json"), "")
    return (" ".join(words[end + 1 :]), place), (packages, place)


def _driver(entry: str, where: str) -> dict[str, tuple[Any, str]]:
    """The command, and a file for what two shells would read on its way to the head (see TW424)."""
    try:
        words = shlex.split(entry, comments=True)
    except ValueError:
        words = []
    if words and all(map(_PLAIN.fullmatch, words)) and "\n" not in entry.strip():
        return {"/workload/command": (words, where)}
    python = len(words) == 3 and words[1] == "-c" and words[0].rpartition("/")[2].startswith("python")
    file, text_of_it = ("/opt/run/driver.py", words[2].lstrip("\n")) if python else ("/opt/run/driver.sh", entry)
    said_there = text_of_it if text_of_it.endswith("\n") else f"{text_of_it}\n"
    command = [words[0] if python else "bash", file]
    return {"/workload/command": (command, where), f"/files/{escape(file)}": (said_there, where)}


_PLAIN = re.compile(r"[A-Za-z0-9@%+=:,./_-]+")
ENTRY, RUNTIME_ENV = "/spec/entrypoint", "/spec/runtimeEnvYAML"


def _runtime_env(text_of_it: str) -> Any:
    try:
        env = yaml.safe_load(text_of_it)
    except yaml.YAMLError:
        return None
    return env if isinstance(env, dict) else None
