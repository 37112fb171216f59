"""Rehearsal: plays the pods of reviewed YAML as local processes, with what the real controller would give them."""

from trainwright.rehearsal.console import rehearse_file
from trainwright.rehearsal.differences import Difference
from trainwright.rehearsal.observer import Observer, Opening
from trainwright.rehearsal.rehearse import Outcome, rehearse
from trainwright.rehearsal.setting import Options, own_programs
from trainwright.rehearsal.stated.objects import Blocker, CannotPlayError, CannotWorkError, UsageError

__all__ = [
    "Blocker", "CannotPlayError", "CannotWorkError", "Difference", "Observer", "Opening", "Options", "Outcome", "UsageError",
    "own_programs", "rehearse", "rehearse_file",
]
