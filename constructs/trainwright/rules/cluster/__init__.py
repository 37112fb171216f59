"""On the cluster: what it offers, what its nodes hold, what is installed in it, and where it starts pods."""
