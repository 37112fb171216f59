"""TrainJob of Kubeflow Trainer: the TrainJob, the TrainingRuntime that it is on, and what each release of the operator can do."""

from trainwright.target.train_job.job import TARGET, TrainJob

__all__ = ["TARGET", "TrainJob"]
