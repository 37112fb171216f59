"""Networks of pods: addresses on this machine or namespaces of their own, and the names that the DNS of the cluster knows."""
