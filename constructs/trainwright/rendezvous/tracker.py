"""DMLC tracker: the first node of XGBoost runs it, and every rank is given its address."""

from __future__ import annotations

from trainwright.handshake import Binding, Needs, Variable

INDEX = "DMLC_TASK_ID"


def variables(needs: Needs, binding: Binding, name: str) -> tuple[Variable, ...]:
    """By the names of Kubeflow Trainer (pkg/runtime/framework/plugins/xgboost); a program hands them to xgboost.collective.
    ``name`` is that of the run's objects.
    """
    return (
        Variable("DMLC_TRACKER_URI", binding.rank_zero_host.format(name=name), "where the first node's tracker listens"),
        Variable("DMLC_TRACKER_PORT", str(binding.rendezvous_port), "the port of the tracker"),
        Variable("DMLC_NUM_WORKER", str(needs.world_size), "workers that the tracker waits for", "run:/topology/nodes"),
    )
