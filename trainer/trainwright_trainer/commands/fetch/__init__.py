"""Fetching: a repository of the Hugging Face Hub, once, into a folder that many pods read."""
