"""Preflight: devices, volume, clock and network of a node, checked before training costs anything."""

from trainwright_trainer.preflight.control import Control
from trainwright_trainer.preflight.failure import NodeUnhealthyError
from trainwright_trainer.preflight.preflight import Checks, preflight

__all__ = ["Checks", "Control", "NodeUnhealthyError", "preflight"]
