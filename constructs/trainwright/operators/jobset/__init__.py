"""JobSet of the Kubernetes project."""
