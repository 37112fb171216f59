"""What operators refuse beyond their CRDs: in an admission webhook, or in the controller, where no one sees it but an Event.

Each check reads one object and yields a pointer, what is wrong there, and what to write instead. It takes an object of any shape:
what the CRD's schema demands is not its business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from trainwright.validate.problem import Objection
from trainwright.validate.webhooks import jobset, kubeflow, mpi, ray, trainer, volcano

Check = Callable[[Mapping[str, Any]], Iterator[Objection]]

WEBHOOKS: Mapping[tuple[str, str], Check] = {
    ("kubeflow.org", "PyTorchJob"): kubeflow.pytorch_job,
    ("kubeflow.org", "TFJob"): kubeflow.tf_job,
    ("kubeflow.org", "XGBoostJob"): kubeflow.xgboost_job,
    ("kubeflow.org", "MPIJob"): mpi.mpi_job,
    ("jobset.x-k8s.io", "JobSet"): jobset.job_set,
    ("trainer.kubeflow.org", "TrainJob"): trainer.train_job,
    ("trainer.kubeflow.org", "TrainingRuntime"): trainer.training_runtime,
    ("trainer.kubeflow.org", "ClusterTrainingRuntime"): trainer.training_runtime,
    ("ray.io", "RayJob"): ray.ray_job,
    ("ray.io", "RayCluster"): ray.ray_cluster,
    ("batch.volcano.sh", "Job"): volcano.volcano_job,
}
"""Group and kind -> the check of its operator."""


def objections(manifest: Mapping[str, Any]) -> Iterator[Objection]:
    """What the operator of an object's kind refuses; nothing for kinds without such rules."""
    key = (str(manifest.get("apiVersion", "")).rpartition("/")[0], str(manifest.get("kind", "")))
    if key in WEBHOOKS:
        yield from WEBHOOKS[key](manifest)


__all__ = ["WEBHOOKS", "Check", "Objection", "objections"]
