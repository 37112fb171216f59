"""Supervisor: process 1 of every pod. Starts the ranks, ties their lives together, and says how it ended. Loads no torch."""

from trainwright_trainer.contract.failures import Refusal
from trainwright_trainer.rank.specification import Specification, read_specification, specification_path
from trainwright_trainer.supervisor.supervise import supervise

__all__ = ["Refusal", "Specification", "read_specification", "specification_path", "supervise"]
