"""Operators: who makes pods of the objects that carry runs, one folder each.

A target is a kind of object that can carry a run: ``TARGET`` in the module that emits it. To add one, write its module, its name
in ``TargetName``, and its row in ``MODULES``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainwright.operators.base import Target


MODULES: Mapping[str, str] = {
    "indexed-job": "job.emit",
    "job-set": "jobset.emit",
    "pytorch-job": "training_operator.pytorch_job",
    "train-job": "kubeflow_trainer.emit",
    "mpi-job": "mpi_operator.emit",
    "tf-job": "training_operator.tf_job",
    "xgboost-job": "training_operator.xgboost_job",
    "ray-job": "kuberay.emit",
    "volcano-job": "volcano.emit",
}
"""Where each target is."""


class _Registry(MutableMapping[str, "Target"]):
    """Targets by name, each loaded when it is asked for: a run needs one of them."""

    def __init__(self) -> None:
        self._targets: dict[str, Target | None] = dict.fromkeys(MODULES)

    def __getitem__(self, name: str) -> Target:
        target = self._targets[name]
        if target is None:
            module = import_module(f"trainwright.operators.{MODULES[name]}")
            target = self._targets[name] = module.TARGET
        return target

    def __setitem__(self, name: str, target: Target) -> None:
        self._targets[name] = target

    def __delitem__(self, name: str) -> None:
        del self._targets[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._targets)

    def __len__(self) -> int:
        return len(self._targets)


TARGETS = _Registry()
"""Every target by name."""

