"""Faults that a rehearsal makes, and what became of the run."""
