"""Data that is fetched once: the Job that copies it, and the container that waits for it in every pod of the run."""
