"""What is found out before a process runs: whether the manifests can work, and whether this machine can play them."""
