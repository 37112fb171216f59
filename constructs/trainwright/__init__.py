"""Trainwright: typed descriptions of distributed training runs, compiled to reviewed Kubernetes YAML.

Importing this package loads neither cdk8s nor torch; the constructs are in ``trainwright.cdk8s``. Its names are loaded when they
are first used, so that a command pays only for what it needs.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainwright.cluster import Cluster
    from trainwright.compile import CompiledRun, compile_run
    from trainwright.findings import CompileError, Finding, Severity, Where
    from trainwright.plan import Plan
    from trainwright.project.load import load_cluster, load_run
    from trainwright.run import Run

_HOMES = {
    "cluster": ["Cluster"],
    "compile": ["CompiledRun", "compile_run"],
    "findings": ["CompileError", "Finding", "Severity", "Where"],
    "plan": ["Plan"],
    "project.load": ["load_cluster", "load_run"],
    "run": ["Run"],
}

__all__ = [
    "Cluster", "CompileError", "CompiledRun", "Finding", "Plan", "Run", "Severity", "Where",
    "compile_run", "load_cluster", "load_run",
]


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"trainwright.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
