"""The end of a grace period, which no save may take: the trainer's own budget, and what alerts hold a measured save against."""

EXIT_MARGIN_SECONDS = 5.0
"""Kept for ending: the supervisor's own 3 seconds, and a rank's to get out."""
