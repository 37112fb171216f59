"""Jobs of Kubernetes: Indexed Jobs that carry runs, and the Jobs that other controllers make."""
