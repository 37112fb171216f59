"""Planning: what a specification will do, without starting anything."""

from trainwright_trainer.commands.plan.plan import Plan, plan
from trainwright_trainer.commands.plan.report import report

__all__ = ["Plan", "plan", "report"]
