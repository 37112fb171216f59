"""RayJob of KubeRay: the job and its cluster."""
