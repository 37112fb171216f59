"""How ranks are started and meet: by their own supervisor, by mpirun, by Ray Train, or again in each round of an elastic run."""
