"""Benching: how fast a run trains on this machine, with its real model, data, engine and supervisor."""

from trainwright_trainer.benching.figures import Figures
from trainwright_trainer.benching.report import report
from trainwright_trainer.benching.run import Request, bench

__all__ = ["Figures", "Request", "bench", "report"]
