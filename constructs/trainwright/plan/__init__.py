"""Every number and name of a run, decided: the plan."""

from trainwright.plan.model import Plan
from trainwright.plan.resolve import Resolution, answer, resolve

__all__ = ["Plan", "Resolution", "answer", "resolve"]
