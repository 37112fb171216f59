"""What a platform team has: the cluster profile."""

from trainwright.cluster.model import Claim, Cluster, Fabric, Gpu, Namespace, NodePool, Spot, StorageClass, Taint

__all__ = ["Claim", "Cluster", "Fabric", "Gpu", "Namespace", "NodePool", "Spot", "StorageClass", "Taint"]
