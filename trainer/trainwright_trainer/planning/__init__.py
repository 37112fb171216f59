"""Planning: what a specification will do, without starting anything."""

from trainwright_trainer.planning.plan import Plan, plan
from trainwright_trainer.planning.report import report

__all__ = ["Plan", "plan", "report"]
