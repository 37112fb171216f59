"""How a script or a command lives, in Kubernetes' words: probes, a hook, a deadline and a time to live."""

from __future__ import annotations

from trainwright.handshake import Role
from trainwright.manifest.provenance import Tree, Why
from trainwright.manifest.template.containers import probe
from trainwright.plan import Resolution
from trainwright.run import PreStop, Run


def deadline(run: Run) -> Tree:
    """Of the object that carries the run, or of a Job below it."""
    if run.deadline is None:
        return {}
    return {"activeDeadlineSeconds": Why(run.deadline.seconds, "run:/deadline", "as asked; what is not done then has failed")}


def time_to_live(run: Run) -> Tree:
    """Of the object that carries the run."""
    if run.ttl is None:
        return {}
    return {"ttlSecondsAfterFinished": Why(run.ttl.seconds, "run:/ttl", "as asked; Argo CD makes a deleted object again")}


def probes(resolution: Resolution, role: Role) -> Tree:
    """Those of a command, and of a role; under the supervisor, and where an operator needs another, they are the plan's."""
    parts, stated = resolution.run.roles.get(role.name), resolution.run.probes
    own = {"readinessProbe": (parts.ready, f"run:/roles/{role.name}/ready")} if parts and parts.ready else {}
    if stated and not role.further and resolution.binding.runs_the_work(role):
        fields = {"startupProbe": "started", "readinessProbe": "ready", "livenessProbe": "alive"}
        own = {field: (getattr(stated, name), f"run:/probes/{name}") for field, name in fields.items()} | own
    return {field: Why(probe(one), source, "as asked") for field, (one, source) in own.items() if one}


def lifecycle(resolution: Resolution, role: Role) -> Tree:
    """What comes before SIGTERM, in the pods that run the work; where an operator starts its own program, in all but further
    ones: the kubelet reads the hook, whoever made the command.
    """
    stated, binding = resolution.run.pre_stop, resolution.binding
    if stated is None or not (binding.runs_the_work(role) or (binding.replaces_command and not role.further)):
        return {}
    return {"lifecycle": {"preStop": Why(_handler(stated), "run:/pre_stop", "as asked; the grace period includes it")}}


def _handler(stated: PreStop) -> Tree:
    if stated.command is not None:
        return {"exec": {"command": list(stated.command)}}
    if stated.sleep is not None:
        return {"sleep": {"seconds": stated.sleep.seconds}}
    return {"httpGet": {"path": stated.http, "port": stated.port}}
