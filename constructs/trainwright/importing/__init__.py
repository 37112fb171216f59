"""From manifests of somebody else to runs and a profile: read, said in a run's words, compiled, and written."""
