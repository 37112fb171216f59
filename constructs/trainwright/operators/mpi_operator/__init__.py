"""MPIJob of the Kubeflow MPI operator."""
