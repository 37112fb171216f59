"""The catalogue of environment variables of NCCL, torch.distributed, Gloo, MPI and libfabric: what each does and may hold."""

from __future__ import annotations

import re

from trainwright.variables.entry import Entry, Family, Library, Risk

_MAY_HAVE_A_ROW = re.compile(r"(NCCL|TORCH|GLOO|OMPI_MCA|I_MPI|FI|OFI_NCCL)(_|$)|USE_LIBUV$")
"""For any other name the hundreds of rows are not read."""

CLOSED = ("NCCL_", "TORCH_NCCL_", "TORCH_FR_", "FI_EFA_", "OMPI_MCA_")
"""Prefixes that belong to a library whose every variable, or family of variables, is in the catalogue."""


def lookup(name: str) -> Entry | Family | None:
    """What the catalogue says of a name; None where it says nothing."""
    if not _MAY_HAVE_A_ROW.match(name):
        return None
    from trainwright.variables.rows import FAMILIES, VARIABLES

    return VARIABLES.get(name) or next((family for family in FAMILIES if family.matches(name)), None)


def is_made_up(name: str) -> bool:
    """Whether a name lies where the catalogue is complete, and is not in it."""
    return name.startswith(CLOSED) and lookup(name) is None


def suggestion(name: str) -> str | None:
    """The variable that somebody may have meant: alive, documented, and of the same part of the library where there is one."""
    from difflib import get_close_matches  # only for a name that is wrong

    from trainwright.variables.rows import VARIABLES

    offered = {known.lower(): known for known, entry in VARIABLES.items() if entry.dead is None and entry.documented}
    near = get_close_matches(name.lower(), offered, n=5, cutoff=0.8)
    part = "_".join(name.lower().split("_")[:2]) + "_"
    return offered[min(near, key=lambda other: not other.startswith(part))] if near else None


__all__ = ["Entry", "Family", "Library", "Risk", "is_made_up", "lookup", "suggestion"]
