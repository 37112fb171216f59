"""Rules on the work and what plays it."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

from trainwright.findings import Finding
from trainwright.findings.codes import found
from trainwright.rules.context import Context
from trainwright.run import BoostingWorkload
from trainwright_trainer.contract.capabilities import CAPABILITIES, unread
from trainwright_trainer.contract.engine import ENGINE_RENDEZVOUS, engine_disagreements


def work_fits_topology(context: Context) -> Iterator[Finding]:
    """Trees need XGBoost's ranks, and networks need others."""
    run = context.run
    where, boosts = context.locate.run("/topology/kind"), run.topology.engine == "xgboost"
    if isinstance(run.workload, BoostingWorkload) and not boosts:
        message = f"workload boosting grows trees, and topology {run.topology.kind} trains networks"
        yield found("TW210", where, message, "write topology: {kind: xgboost, nodes: N, gpus_per_node: 0}")
    elif run.trainer and boosts:
        message = "topology xgboost grows trees, and workload trainer trains a network"
        yield found("TW210", where, message, "write workload: {kind: boosting, …}, or another topology")


def engine_fits(context: Context) -> Iterator[Finding]:
    """What the engine of the topology cannot build, or cannot meet by."""
    run, work, engine = context.run, context.run.trainer, context.run.topology.engine
    if work is None or engine == "xgboost":
        return
    rendezvous = run.topology.needs().rendezvous.value
    if rendezvous not in ENGINE_RENDEZVOUS[engine]:
        message = f"engine {engine} cannot train under rendezvous {rendezvous}"
        yield found("TW210", context.locate.run("/topology"), message, f"it needs {' or '.join(ENGINE_RENDEZVOUS[engine])}")
    # the topology itself says where DeepSpeed's configuration is; only the model is the run's own here
    for problem in engine_disagreements(engine, work.model, None, None):
        if "architecture" in problem:
            yield found("TW210", context.locate.run("/workload/model/architecture"), problem.partition("; ")[0],
                        problem.partition("; ")[2] or "use another topology")
    asked = SimpleNamespace(**dict(work), checkpoints=run.checkpoints)  # the contract has both in one
    for setting, instead in unread(engine, asked):
        pointer = setting.split()[0].replace(".", "/")
        where = context.locate.run(f"/{pointer}" if pointer.startswith("checkpoints/") else f"/workload/{pointer}")
        yield found("TW210", where, f"engine {engine} does not read {setting}", instead)


def engine_can_resize(context: Context) -> Iterator[Finding]:
    """Nodes that come and go leave checkpoints of another number of ranks."""
    run, engine = context.run, context.run.topology.engine
    if run.trainer and engine != "xgboost" and run.topology.needs().elastic and not CAPABILITIES[engine].reshards:
        message = f"engine {engine} cannot load a checkpoint at another number of ranks, and the topology is elastic"
        yield found("TW210", context.locate.run("/topology/elastic"), message, "remove elastic")


RUN = (work_fits_topology, engine_fits, engine_can_resize)
