"""TrainJob of Kubeflow Trainer, and the TrainingRuntime that it refers to."""
