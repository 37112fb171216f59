"""How many nodes a run takes where its pods share none."""

from __future__ import annotations

from trainwright.handshake import Binding
from trainwright.plan.model import PlacementPlan
from trainwright.run import Run


def plan_placement(run: Run, binding: Binding) -> PlacementPlan | None:
    """None where pods may share a node. On the node's network a launcher needs a node of its own too: it has ports as well."""
    ranks = sum(role.pods for role in binding.roles if role.holds_ranks)
    if run.host_network:
        nodes = sum(role.pods for role in binding.roles)
        beside = [role.name for role in binding.roles if not role.holds_ranks]
        others = f", and {nodes - ranks} of them is for the {' and '.join(beside)}, which holds no ranks" if beside else ""
        return PlacementPlan(nodes, f"pods would want the same ports of a node{others}")
    return PlacementPlan(ranks, "as asked, for pods that hold ranks") if run.placement.one_per_node else None
