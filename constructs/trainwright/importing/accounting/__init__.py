"""What became of each leaf of an original, by what its run compiles to."""
