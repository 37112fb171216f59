"""Rows from the NCCL user guide."""

from __future__ import annotations

from trainwright.variables.entry import Entry, Library, Risk
from trainwright.variables.values import Choice, Values

PAGE = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"

LEVELS = Choice(("LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS", "0", "1", "2", "3", "4"), exact=True)
"""Kinds of paths, compared with strcmp, and their old numbers (NCCL, src/graph/paths.cc, ncclGetLevel)."""


def nccl(
    name: str,
    what: str,
    values: Values,
    since: str | None = None,
    *,
    risk: Risk | None = None,
    deprecated: str | None = None,
    instead: str | None = None,
) -> Entry:
    """A variable that the guide describes, with the heading that does."""
    source = f"{PAGE}#{name.lower().replace('_', '-')}"
    return Entry(name, Library.NCCL, what, values, source, since, deprecated=deprecated, risk=risk, instead=instead)


def removed(name: str, what: str, until: str, values: Values, instead: str, since: str | None = None) -> Entry:
    """A variable that the guide still describes and no release reads."""
    source = f"{PAGE}#{name.lower().replace('_', '-')}"
    dead = f"has no effect: removed in NCCL {until}"
    return Entry(name, Library.NCCL, what, values, source, since, until, dead=dead, instead=instead)
