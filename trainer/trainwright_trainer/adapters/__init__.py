"""A script's hand in the words of libraries that train, one module each. A module needs its own library, and nothing else."""
