"""Targets: kinds of Kubernetes objects that can carry a run. Each is one module, registered here."""

from trainwright.target.base import Target, Unshared
from trainwright.target.indexed_job import IndexedJob
from trainwright.target.job_set import JobSet
from trainwright.target.mpi_job import MPIJob
from trainwright.target.pytorch_job import PyTorchJob
from trainwright.target.ray_job import RayJob
from trainwright.target.tf_job import TFJob
from trainwright.target.train_job.job import TrainJob
from trainwright.target.xgboost_job import XGBoostJob

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (IndexedJob(), JobSet(), PyTorchJob(), TrainJob(), MPIJob(), TFJob(), XGBoostJob(), RayJob())
}
"""Every target by name."""

__all__ = [
    "TARGETS", "IndexedJob", "JobSet", "MPIJob", "PyTorchJob", "RayJob", "TFJob", "Target", "TrainJob", "Unshared", "XGBoostJob",
]
