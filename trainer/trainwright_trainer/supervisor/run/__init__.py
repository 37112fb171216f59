"""The run as node 0 sees it: who is there, what all ranks agree on, what the volume remembers, and why it ends."""
