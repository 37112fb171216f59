"""Runs beside the torch loop: every rank holds the whole state, and rank 0 writes it.

XGBoost and TensorFlow bring a way of their own to train together; what a run owes to its supervisor and to the checkpoint volume
is the same. No torch in here.
"""
