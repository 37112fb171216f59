"""What a Job does with a failed pod, from the trainer's table of exit codes."""

from __future__ import annotations

from trainwright.handshake import Role
from trainwright.manifest.provenance import Tree, Why
from trainwright.plan import Resolution
from trainwright_trainer.contract import Disposition, codes_with


def failure_rules(resolution: Resolution, role: Role) -> list[Tree | Why]:
    """Permanent codes end the Job; an evicted pod or a lost peer costs no retry; everything else counts. The first match wins."""
    evicted = _on_disruption("Ignore", "evicted, preempted or drained: not the run's fault")
    if not resolution.processes[role.name].supervised:
        return [evicted]

    def on_codes(action: str, disposition: Disposition, reason: str) -> Why:
        codes = {"containerName": role.container, "operator": "In", "values": list(codes_with(disposition))}
        return Why({"action": action, "onExitCodes": codes}, "trainwright", reason)

    return [
        on_codes("FailJob", Disposition.PERMANENT, "the same pod would fail again: end the run and keep the message"),
        evicted,
        on_codes("Ignore", Disposition.IGNORED, "peer lost or preempted: come back together, at no cost"),
    ]


def failure_rules_below_set(resolution: Resolution, role: Role) -> list[Tree | Why]:
    """The same for a Job of a JobSet. Without the supervisor an evicted pod would come back alone, to peers that wait for the one
    that is gone until NCCL's own time is over: so its Job fails, and the JobSet starts all pods again.
    """
    if resolution.processes[role.name].supervised:
        return failure_rules(resolution, role)
    return [_on_disruption("FailJob", "evicted, preempted or drained: nobody tells its peers, so all start again")]


def set_rules(resolution: Resolution) -> list[Tree | Why]:
    """What a JobSet does with a Job that failed by its policy; any other failure starts all Jobs again, and counts."""
    if all(process.supervised for process in resolution.processes.values()):
        return [{"name": "permanent", "action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]}]
    disrupted = {"name": "disrupted", "action": "RestartJobSetAndIgnoreMaxRestarts", "onJobFailureReasons": ["PodFailurePolicy"]}
    return [Why(disrupted, "trainwright", "an eviction is not the run's fault: all pods start again, and it costs no restart")]


def _on_disruption(action: str, reason: str) -> Why:
    rule: Tree = {"action": action, "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    return Why(rule, "trainwright", reason)
