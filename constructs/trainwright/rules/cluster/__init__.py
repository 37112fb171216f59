"""On the cluster: what it offers, what is installed in it, and where it starts pods."""
