"""What a PyTorchJob, a TFJob or an XGBoostJob says of its run."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from trainwright.findings.locate import at
from trainwright.objects.fields import items, mapping, text, whole
from trainwright.operators.operator import Around
from trainwright.operators.said import TORCH, Part, Said, count, is_supervisor, seconds, stated
from trainwright.operators.training_operator.pods import LABEL

POLICY = "/spec/runPolicy"


def said(manifest: Mapping[str, Any], around: Around) -> Said:
    kind = text(manifest, "/kind")
    return {"PyTorchJob": _pytorch_job, "TFJob": _tf_job, "XGBoostJob": _xgboost_job}[kind](manifest)


def replicas(
    manifest: Mapping[str, Any], field: str, container: str, roles: Mapping[str, bool], mark: str = "replica-type"
) -> list[Part]:
    """The pods of each role that is there; role -> whether it holds ranks. Operators know roles by any case, and ``mark`` pods by
    a label.
    """
    stated_roles = {name.lower(): name for name in mapping(manifest, f"/spec/{field}")}
    parts = []
    for role, ranks in roles.items():
        if role.lower() in stated_roles:
            pointer = f"/spec/{field}/{stated_roles[role.lower()]}"
            pods = count(manifest, f"{pointer}/replicas")
            template = mapping(manifest, f"{pointer}/template")
            if pods:
                marks = {f"{LABEL}{mark}": role.lower()}
                parts.append(Part(role.lower(), pods, f"{pointer}/template", template, ranks, container=container, marks=marks))
    return parts


def _life(manifest: Mapping[str, Any], parts: Collection[Part], most: int = 0) -> dict[str, tuple[Any, str]]:
    """The limit counts restarts of all pods together, which a run counts for each; but those alone that no exit code of our
    supervisor causes, where it runs. ``most`` pods may be there.
    """
    there = f"{POLICY}/backoffLimit"
    words: dict[str, tuple[Any, str]] = dict(seconds(manifest, f"{POLICY}/activeDeadlineSeconds"))
    if (limit := whole(manifest, there)) is not None:
        pods = max(sum(one.pods for one in parts), most, 1)
        supervised = all(is_supervisor(at(one.template, "/spec/containers/0/command")) for one in parts)
        words["/restarts"] = (0 if limit <= 0 else limit if supervised else max(1, (limit - 1) // pods), there)
    policies = [f"{one.pointer.removesuffix('/template')}/restartPolicy" for one in parts]
    if policies and all(text(manifest, place) == "Never" for place in policies):  # the first failure ends it, whatever the limit
        words |= {"/restarts": (0, policies[0]), "/on_disruption": ("fail", policies[0])}
    return words | dict(queue(manifest))


def queue(manifest: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Volcano's queue, where it is not the one that every pod without one goes to."""
    there = f"{POLICY}/schedulingPolicy/queue"
    if (name := text(manifest, there)) not in ("", "default"):
        yield "/queue", (name, there)


def _pytorch_job(manifest: Mapping[str, Any]) -> Said:
    parts = replicas(manifest, "pytorchReplicaSpecs", "pytorch", {"Master": True, "Worker": True})
    elastic, pods = mapping(manifest, "/spec/elasticPolicy"), sum(one.pods for one in parts)
    most = max(count(elastic, "/maxReplicas", pods), pods) if elastic else pods
    words = _life(manifest, parts, most)
    each = at_number(manifest, "/spec/nprocPerNode") or at_number(manifest, "/spec/elasticPolicy/nProcPerNode")
    if each:
        words["/topology/processes_per_node"] = (each, "/spec/nprocPerNode")
    if elastic:
        words |= stated(manifest, {"/spec/elasticPolicy/maxRestarts": "/restarts"})
        words["/topology/elastic/min_nodes"] = (count(elastic, "/minReplicas"), "/spec/elasticPolicy/minReplicas")
        words["/topology/elastic/max_nodes"] = (most, "/spec/elasticPolicy/maxReplicas")
        if metrics := [dict(one) for _, one in items(elastic, "/metrics")]:
            words["/topology/elastic/metrics"] = (metrics, "/spec/elasticPolicy/metrics")
    return Said("pytorch-job", tuple(parts), TORCH, words)


def at_number(owner: object, pointer: str) -> int | None:
    """A number that may be written as text, as ``nprocPerNode`` is; ``auto`` and the like are none."""
    stated_text = text(owner, pointer)
    return int(stated_text) if stated_text.isdigit() else whole(owner, pointer)


def _tf_job(manifest: Mapping[str, Any]) -> Said:
    every = {"Chief": True, "Master": True, "Worker": True, "PS": False, "Evaluator": False}
    parts = {one.role: one for one in replicas(manifest, "tfReplicaSpecs", "tensorflow", every)}
    servers, words = parts.get("ps"), _life(manifest, parts.values())
    chief = parts.pop("master", None) or parts.pop("chief", None)
    workers = parts.get("worker")
    lead = [workers] if workers else []
    if chief and servers:
        words["/topology/coordinator"] = (True, chief.pointer)
        lead.append(chief._replace(role="chief", ranks=False))
    elif chief:
        words["/topology/chief"] = (True, chief.pointer)
        lead.append(chief._replace(role="chief"))
    if servers:
        words["/topology/parameter_servers"] = (servers.pods, f"{servers.pointer.removesuffix('template')}replicas")
        lead.append(servers)
    if evaluator := parts.get("evaluator"):
        lead.append(evaluator._replace(further=True))
    return Said("tf-job", tuple(lead), ("parameter-server",) if servers else ("multi-worker-mirrored",), words)


def _xgboost_job(manifest: Mapping[str, Any]) -> Said:
    parts = replicas(manifest, "xgbReplicaSpecs", "xgboost", {"Worker": True, "Master": True})
    return Said("xgboost-job", tuple(parts), ("xgboost",), _life(manifest, parts))
