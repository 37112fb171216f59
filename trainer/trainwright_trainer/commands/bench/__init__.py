"""Benching: how fast a run trains on this machine, with its real model, data, engine and supervisor."""

from trainwright_trainer.commands.bench.figures import Figures, report
from trainwright_trainer.commands.bench.run import Request, bench

__all__ = ["Figures", "Request", "bench", "report"]
