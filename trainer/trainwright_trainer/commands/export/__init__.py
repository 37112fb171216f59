"""Exporting: from a committed checkpoint to a directory that ``from_pretrained`` loads."""
