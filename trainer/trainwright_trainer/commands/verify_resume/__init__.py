"""Verifying a resume: a run that is killed and resumed sees the samples and learns the weights of one that was never stopped."""
