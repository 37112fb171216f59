"""What a RayJob says of its run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

import yaml

from trainwright.findings.locate import at
from trainwright.objects.fields import items, mapping, text, whole
from trainwright.operators.kuberay.cluster import HEAD, HEAD_POD, WORKER, group_at, ray_version
from trainwright.operators.operator import Around
from trainwright.operators.said import Part, Said, count, stated

CLUSTER = "/spec/rayClusterSpec"
_OURS = frozenset({"dashboard-host", "num-cpus", "num-gpus"})
"""Options of Ray that the plan states."""


def said(manifest: Mapping[str, Any], around: Around) -> Said:
    """The first group of workers has the ranks; a cluster without any has them on its head."""
    groups = [
        Part(WORKER if not number else text(one, "/groupName", f"group-{number}"), max(count(one, "/replicas"), 1),
             group_at(number), mapping(one, "/template"), ranks=not number, further=bool(number), container="ray-worker")
        for number, one in items(manifest, f"{CLUSTER}/workerGroupSpecs")
    ]  # fmt: skip
    head = Part(HEAD, 1, HEAD_POD, mapping(manifest, HEAD_POD), ranks=not groups, container="ray-head")
    words: dict[str, tuple[Any, str]] = dict(stated(manifest, {"/spec/backoffLimit": "/restarts"}))
    if entry := text(manifest, "/spec/entrypoint"):
        words["/workload/command"] = (_words(entry), "/spec/entrypoint")
    if not groups:
        words["/topology/head_is_node"] = (True, f"{CLUSTER}/headGroupSpec")
    version = text(manifest, f"{CLUSTER}/rayVersion")
    tag = ray_version(text(head.template, "/spec/containers/0/image"), None)
    if version and (tag is None or tag.value != version):
        words["/topology/version"] = (version, f"{CLUSTER}/rayVersion")
    if env := _runtime_env(text(manifest, "/spec/runtimeEnvYAML")):
        words["/topology/runtime_env"] = (env, "/spec/runtimeEnvYAML")
    for role, pointer in (
        (HEAD, f"{CLUSTER}/headGroupSpec"),
        *((one.role, one.pointer.removesuffix("/template")) for one in groups),
    ):
        own = {name: str(value) for name, value in mapping(manifest, f"{pointer}/rayStartParams").items() if name not in _OURS}
        if own:
            words[f"/topology/start_params/{role}"] = (own, f"{pointer}/rayStartParams")
        least, most = whole(manifest, f"{pointer}/minReplicas"), whole(manifest, f"{pointer}/maxReplicas")
        autoscaled = at(manifest, f"{CLUSTER}/enableInTreeAutoscaling") is True or (least, most) != (most, most)
        if role != HEAD and autoscaled and least is not None and most:
            words[f"/topology/autoscaling/{role}"] = ({"min_nodes": least, "max_nodes": most}, f"{pointer}/minReplicas")
    return Said("ray-job", (*groups[:1], head, *groups[1:]), ("ray",), words)


def _words(entry: str) -> list[str]:
    """The command; one that needs a shell is given one."""
    try:
        words = shlex.split(entry)
    except ValueError:
        return ["sh", "-c", entry]
    plain = "\n" not in entry.strip() and not any(sign in entry for sign in "$`;|&<>*?~(){}")
    return words if plain and words else ["sh", "-c", entry]


def _runtime_env(text_of_it: str) -> Any:
    try:
        env = yaml.safe_load(text_of_it)
    except yaml.YAMLError:
        return None
    return env if isinstance(env, dict) else None
