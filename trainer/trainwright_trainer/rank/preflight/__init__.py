"""Preflight: devices, volume, clock and network of a node, checked before training costs anything."""

from trainwright_trainer.rank.preflight.checks import Checks, preflight
from trainwright_trainer.rank.preflight.fitness import Control, NodeUnhealthyError

__all__ = ["Checks", "Control", "NodeUnhealthyError", "preflight"]
