"""What a run keeps, whatever happens to it."""

from __future__ import annotations

from trainwright.handshake import Binding, Guarantee, Needs
from trainwright.plan.incident import takes_others
from trainwright.plan.model import RecoveryPlan
from trainwright.run import CommandWorkload, Run, ScriptWorkload
from trainwright.topology import LINKED, Topology
from trainwright_trainer.contract.engine import CAPABILITIES, Capabilities

_BY_LIBRARY = {Guarantee.SCRIPT_RESUME, Guarantee.SCRIPT_STEPS}


def pair_guarantees(topology: Topology, needs: Needs, binding: Binding) -> frozenset[Guarantee]:
    """Those that topology and target both keep, on any cluster."""
    kept = binding.guarantees & topology.guarantees
    return kept - {Guarantee.IN_PLACE} if takes_others(needs, binding) else kept


def plan_guarantees(run: Run, needs: Needs, binding: Binding, recovery: RecoveryPlan | None) -> tuple[str, ...]:
    """The guarantees that target, topology, workload and engine all keep; an opaque command has none, or under our supervisor one
    verdict where it is connected to the others. What a program saves when it is told to end is nobody's guarantee unless the run
    says that it saves. Pods stay where the run and the cluster leave them alone, too.
    """
    together = {Guarantee.RESTART_ALL, Guarantee.IN_PLACE}
    kept = pair_guarantees(run.topology, needs, binding)
    if isinstance(run.workload, CommandWorkload):
        kept = binding.guarantees & together if run.supervised and needs.rendezvous in LINKED else frozenset()
    elif isinstance(run.workload, ScriptWorkload):
        saves = {Guarantee.SIGTERM_SAVE} if run.saved_by == "own" else set()
        protocol = {Guarantee.EXIT_CODES} | saves if run.workload.protocol else set()
        library = _BY_LIBRARY | {Guarantee.SIGTERM_SAVE} if run.saved_by == "script" else set()
        kept &= together | protocol | library
    else:
        kept -= _BY_LIBRARY | (_beyond(CAPABILITIES[engine]) if (engine := run.topology.engine) else set())
    if recovery is None or not recovery.in_place:
        kept -= {Guarantee.IN_PLACE}
    return tuple(guarantee.value for guarantee in Guarantee if guarantee in kept)


def _beyond(engine: Capabilities) -> set[Guarantee]:
    """What an engine cannot keep, wherever it runs."""
    able = {Guarantee.SIGTERM_SAVE: engine.sigterm_save, Guarantee.RESHARD: engine.reshards}
    return {guarantee for guarantee, kept in able.items() if not kept}
