"""Data sets, and the order in which samples are read."""
