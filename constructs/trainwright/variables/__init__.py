"""The catalogue of environment variables of NCCL, torch.distributed, Gloo, MPI and libfabric: what each does and may hold."""

from __future__ import annotations

from trainwright.variables.entry import Entry, Family, Library, Risk
from trainwright.variables.libfabric import LIBFABRIC, LIBFABRIC_FAMILIES
from trainwright.variables.mpi import MPI, MPI_FAMILIES
from trainwright.variables.nccl import INTERNAL, PLUGIN_FAMILIES, SYSTEM
from trainwright.variables.nccl_tuning import TUNING
from trainwright.variables.torch_distributed import TORCH

VARIABLES = {entry.name: entry for entry in (*SYSTEM, *TUNING, *INTERNAL, *TORCH, *MPI, *LIBFABRIC)}
"""Every variable by its name, in the order of the documentation."""

FAMILIES = (*PLUGIN_FAMILIES, *MPI_FAMILIES, *LIBFABRIC_FAMILIES)

CLOSED = ("NCCL_", "TORCH_NCCL_", "TORCH_FR_", "FI_EFA_", "OMPI_MCA_")
"""Prefixes that belong to a library whose every variable, or family of variables, is in the catalogue."""


def lookup(name: str) -> Entry | Family | None:
    """What the catalogue says of a name; None where it says nothing."""
    return VARIABLES.get(name) or next((family for family in FAMILIES if family.matches(name)), None)


def is_made_up(name: str) -> bool:
    """Whether a name lies where the catalogue is complete, and is not in it."""
    return name.startswith(CLOSED) and lookup(name) is None


def suggestion(name: str) -> str | None:
    """The variable that somebody may have meant: alive, documented, and of the same part of the library where there is one."""
    from difflib import get_close_matches  # only for a name that is wrong

    internal = {entry.name for entry in INTERNAL}
    offered = {known.lower(): known for known, entry in VARIABLES.items() if entry.dead is None and known not in internal}
    near = get_close_matches(name.lower(), offered, n=5, cutoff=0.8)
    part = "_".join(name.lower().split("_")[:2]) + "_"
    return offered[min(near, key=lambda other: not other.startswith(part))] if near else None


__all__ = ["FAMILIES", "VARIABLES", "Entry", "Family", "Library", "Risk", "is_made_up", "lookup", "suggestion"]
