"""Releases of the MPI Operator, and what each can do."""

from __future__ import annotations

from trainwright.cluster.addons import Releases
from trainwright.operators.base import Crd, Feature, GangFlag, KnownOperator

FLAG = GangFlag()
MPI_OPERATOR = KnownOperator(
    "mpi-operator",
    Releases((0, 5), (0, 8)),
    Crd("mpijobs.kubeflow.org", "v2beta1"),
    FLAG,
    managed_by=Feature((0, 6), "`managedBy` of an MPIJob, for MultiKueue", "pkg/apis/kubeflow/v2beta1/types.go"),
)
"""runLauncherAsWorker and MPICH came with 0.5. It overwrites the scheduler of its pods with that of its flag
(pkg/controller/podgroup.go, decoratePodTemplateSpec)."""
