"""A pod as processes of this machine: what kubelet and container runtime do, and what programs of an image need here."""
