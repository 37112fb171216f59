"""TrainJob of Kubeflow Trainer: the TrainJob, the TrainingRuntime that it is on, and what each release of the operator can do."""
