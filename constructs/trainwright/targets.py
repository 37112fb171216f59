"""Every target, and the operator that it needs: a further one is its folder in ``operators``, and its line here."""

from collections.abc import MutableMapping

TARGET_MODULES: MutableMapping[str, tuple[str, str | None]] = {
    "indexed-job": ("job.emit", None),
    "job-set": ("jobset.emit", "jobset"),
    "pytorch-job": ("training_operator.pytorch_job", "training-operator"),
    "train-job": ("kubeflow_trainer.emit", "trainer"),
    "mpi-job": ("mpi_operator.emit", "mpi-operator"),
    "tf-job": ("training_operator.tf_job", "training-operator"),
    "xgboost-job": ("training_operator.xgboost_job", "training-operator"),
    "ray-job": ("kuberay.emit", "kuberay"),
    "volcano-job": ("volcano.emit", None),
}
"""Name, as runs and cluster profiles write it -> the module below ``operators`` with its ``TARGET``, and the name that profiles
have for its operator; None for what comes with Kubernetes, or with the gang scheduler."""
