"""Verifying a resume: a run that is killed and resumed sees the samples and learns the weights of one that was never stopped."""

from trainwright_trainer.commands.verify_resume.comparison import Check, Proof
from trainwright_trainer.commands.verify_resume.report import document, report
from trainwright_trainer.commands.verify_resume.run import Request, verify_resume

__all__ = ["Check", "Proof", "Request", "document", "report", "verify_resume"]
