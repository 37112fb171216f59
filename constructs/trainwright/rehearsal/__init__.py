"""Rehearsal: plays the pods of reviewed YAML as local processes, with what the real controller would give them."""

from trainwright.rehearsal.console import rehearse_file
from trainwright.rehearsal.differences import Override
from trainwright.rehearsal.objects import CannotWorkError, Problem, UsageError
from trainwright.rehearsal.observer import Observer, Opening
from trainwright.rehearsal.rehearse import Outcome, rehearse
from trainwright.rehearsal.setting import Options

__all__ = [
    "CannotWorkError", "Observer", "Opening", "Options", "Outcome", "Override", "Problem", "UsageError", "rehearse",
    "rehearse_file",
]
