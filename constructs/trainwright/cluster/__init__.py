"""What a platform team has: the cluster profile."""

from trainwright.cluster.model import Claim, Cluster, Fabric, Gpu, Namespace, NodePool, Spot, StorageClass, Taint, is_from

__all__ = ["Claim", "Cluster", "Fabric", "Gpu", "Namespace", "NodePool", "Spot", "StorageClass", "Taint", "is_from"]
