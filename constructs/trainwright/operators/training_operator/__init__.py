"""PyTorchJob, TFJob and XGBoostJob of the Kubeflow Training Operator."""
