"""What Argo CD is told of a project: from ``charts/gitops.yaml`` to its project, its Applications, and the health of runs."""
