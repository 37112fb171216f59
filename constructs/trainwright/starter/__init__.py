"""A new project outside this repository: its files, its first run, and a profile from what a cluster says of itself."""
