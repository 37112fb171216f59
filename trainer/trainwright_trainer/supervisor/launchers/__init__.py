"""How ranks are started and meet: by their own supervisor, by mpirun, by Ray Train, or anew in each round of an elastic run."""
