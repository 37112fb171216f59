"""Which trainers this contract speaks to."""

from __future__ import annotations

KNOWN_VERSIONS = ("0.2.0",)
"""Versions that an image may have, oldest first. The last is the one of this tree, and the default of runs."""
