"""One pod: its ranks, what becomes of them, and the exit code that follows."""
