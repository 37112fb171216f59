"""The catalogue of environment variables of NCCL, torch.distributed, Gloo, MPI and libfabric: what each does and may hold."""

from trainwright.variables.catalogue import FAMILIES, VARIABLES, is_made_up, lookup, suggestion
from trainwright.variables.entry import Entry, Family, Library, Risk

__all__ = ["FAMILIES", "VARIABLES", "Entry", "Family", "Library", "Risk", "is_made_up", "lookup", "suggestion"]
