"""Supervisor: process 1 of every pod. Starts the ranks, ties their lives together, and says how it ended. Loads no torch."""
