"""How long the network takes at least for what the ranks send in one step of the optimizer: the links of a node share it."""

from __future__ import annotations

from trainwright.cluster.model import Fabric
from trainwright.plan.model import CommunicationPlan, WorldPlan
from trainwright_trainer.contract.estimate.computation import Computation
from trainwright_trainer.contract.estimate.traffic import collectives
from trainwright_trainer.contract.sharding import Sharding


def communication(
    work: Computation | None, world: WorldPlan, sharding: Sharding, fabric: Fabric
) -> CommunicationPlan | None:
    """Traffic of one optimizer step; None where the model's size is not known or one rank is alone."""
    if work is None or world.size == 1:
        return None
    made, formula = collectives(work, sharding, world.size, world.processes_per_node)
    leaves = sum(each.leaves_node for each in made)
    seconds = leaves / bytes_per_second(fabric) if world.nodes > 1 else None
    return CommunicationPlan(sent=sum(each.sent for each in made), leaves_node=leaves, formula=formula, seconds=seconds)


def bytes_per_second(fabric: Fabric) -> float:
    """Bandwidth of a node over all of its links."""
    return fabric.links * fabric.gigabits_per_link * 1e9 / 8
