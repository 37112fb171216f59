"""Start, change and stop what ``dist/`` says in a cluster, when asked."""
