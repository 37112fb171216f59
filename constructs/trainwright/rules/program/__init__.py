"""On the program that pods run: its command line, its launcher, and its environment."""
