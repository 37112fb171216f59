"""Tasks: what a batch is, and what is measured on it."""
