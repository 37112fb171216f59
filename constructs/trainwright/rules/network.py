"""Rules on the network of the pods."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.findings import Finding
from trainwright.findings.codes import found
from trainwright.manifest.network_policy import fences
from trainwright.plan import Resolution
from trainwright.rules.context import Context


def host_network(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """On the node's network a pod is outside of every pod security level but one, and its ports are the node's."""
    if not context.run.host_network:
        return
    where, binding = context.locate.run("/host_network"), resolution.binding
    namespace = context.cluster.namespaces.get(context.run.namespace)
    if namespace and namespace.pod_security != "privileged":
        message = f"pod security {namespace.pod_security} refuses hostNetwork"
        yield found("TW604", where, message, "remove it, or use a namespace of level privileged")
    if binding.fixed_port or binding.replaces_command:
        message = f"{resolution.target.title} decides ports itself: two runs on one node would want the same ones"
        yield found("TW605", where, message, "remove host_network, or choose a target that leaves ports to the plan")


def fenced(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """A profile that wants runs fenced off, and a run that cannot be."""
    if context.cluster.network_policy and not fences(resolution):
        cause = "it uses the node's network" if context.run.host_network else "the operator's own pods must reach it"
        message = f"the run has no NetworkPolicy, since {cause}"
        yield found("TW440", context.locate.run("/host_network" if context.run.host_network else "/target"), message,
                    "nothing, or another target; the cluster's own policies still hold")


PLAN = (host_network, fenced)
