"""A project on disk: its sources, what they compile to, the records, and ``dist/``."""
