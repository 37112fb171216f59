"""Releases of the Training Operator v1, and what each can do."""

from __future__ import annotations

from trainwright.cluster.addons import Releases
from trainwright.operators.base import Crd, Feature, GangFlag, KnownOperator

FLAG = GangFlag(keeps_scheduler=True)
TRAINING_OPERATOR = KnownOperator(
    "training-operator",
    Releases((1, 7), (1, 9)),
    Crd("pytorchjobs.kubeflow.org", "v1"),
    FLAG,
    managed_by=Feature((1, 9), "`managedBy` of its jobs, for MultiKueue", "pkg/apis/kubeflow.org/v1/common_types.go"),
)
"""It writes the flag's scheduler into pods that name none (pkg/controller.v1/control/podgroup_control.go)."""
