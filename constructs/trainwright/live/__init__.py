"""What runs in a cluster, as it was read there."""
