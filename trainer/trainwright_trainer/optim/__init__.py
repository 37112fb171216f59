"""Optimizers and the learning rate's schedule."""
