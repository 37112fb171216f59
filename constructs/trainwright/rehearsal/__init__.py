"""Rehearsal: plays the pods of reviewed YAML as local processes, with what the real controller would give them."""

from trainwright.rehearsal.command import rehearse_file
from trainwright.rehearsal.observer import Observer, Opening
from trainwright.rehearsal.options import Options
from trainwright.rehearsal.outcome import Outcome
from trainwright.rehearsal.override import Override
from trainwright.rehearsal.problem import CannotWorkError, Problem, UsageError
from trainwright.rehearsal.rehearse import rehearse

__all__ = [
    "CannotWorkError", "Observer", "Opening", "Options", "Outcome", "Override", "Problem", "UsageError", "rehearse",
    "rehearse_file",
]
