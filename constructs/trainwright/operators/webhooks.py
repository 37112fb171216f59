"""What operators refuse beyond their CRDs: in an admission webhook, or in the controller, where only an Event shows it.

Each check reads one object and yields a pointer, what is wrong there, and what to write instead. It takes an object of any shape:
what the CRD's schema demands is checked elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from trainwright.manifest.kinds import GroupKind
from trainwright.objects.problem import Objection
from trainwright.operators.jobset import rules as jobset
from trainwright.operators.kubeflow_trainer import rules as trainer
from trainwright.operators.kuberay import rules as ray
from trainwright.operators.kueue import rules as kueue
from trainwright.operators.mpi_operator import rules as mpi
from trainwright.operators.operator import defaults as completed
from trainwright.operators.training_operator import rules as kubeflow
from trainwright.operators.volcano import rules as volcano

Check = Callable[[Mapping[str, Any]], Iterator[Objection]]

WEBHOOKS: Mapping[GroupKind, Check] = {
    GroupKind("kubeflow.org", "PyTorchJob"): kubeflow.pytorch_job,
    GroupKind("kubeflow.org", "TFJob"): kubeflow.tf_job,
    GroupKind("kubeflow.org", "XGBoostJob"): kubeflow.xgboost_job,
    GroupKind("kubeflow.org", "MPIJob"): mpi.mpi_job,
    GroupKind("jobset.x-k8s.io", "JobSet"): jobset.job_set,
    GroupKind("trainer.kubeflow.org", "TrainJob"): trainer.train_job,
    GroupKind("trainer.kubeflow.org", "TrainingRuntime"): trainer.training_runtime,
    GroupKind("trainer.kubeflow.org", "ClusterTrainingRuntime"): trainer.training_runtime,
    GroupKind("ray.io", "RayJob"): ray.ray_job,
    GroupKind("ray.io", "RayCluster"): ray.ray_cluster,
    GroupKind("batch.volcano.sh", "Job"): volcano.volcano_job,
}
"""Kind -> the check of its operator."""


def objections(manifest: Mapping[str, Any]) -> Iterator[Objection]:
    """What the operator of an object's kind refuses, and Kueue of any kind."""
    if check := WEBHOOKS.get(GroupKind.of(manifest)):
        yield from check(completed(manifest))
    yield from kueue.queued(manifest)


__all__ = ["WEBHOOKS", "Check", "Objection", "completed", "objections"]
