"""Ray Train as a launcher: it places the ranks of a run on the nodes of a Ray cluster, and starts each of them there."""
