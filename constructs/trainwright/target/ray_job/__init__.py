"""RayJob of KubeRay: the target, its cluster, and the rules about both."""

from trainwright.target.ray_job.job import TARGET

__all__ = ["TARGET"]
