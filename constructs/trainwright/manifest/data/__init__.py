"""Data that is fetched once: the Job that copies it."""
