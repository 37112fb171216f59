"""Which trainer version knows which field, so that an older image gets a specification it can read."""

from __future__ import annotations

KNOWN_VERSIONS = ("0.1.0",)
"""Trainer releases that this contract can address, oldest first."""

FIELD_SINCE: dict[str, str] = {}
"""Dotted path of a field in ``RunSpec`` -> the first release that reads it. A field not listed is as old as the contract."""
