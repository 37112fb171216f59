"""Operators: who makes pods of the objects that carry runs, one folder each.

A target is a kind of object that can carry a run: ``TARGET`` in the module that emits it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from trainwright.targets import TARGET_MODULES

if TYPE_CHECKING:
    from trainwright.operators.base import Target


class _Registry(Mapping[str, "Target"]):
    """Targets by name, each loaded when it is asked for: a run needs one of them."""

    def __getitem__(self, name: str) -> Target:
        return _target(TARGET_MODULES[name][0])

    def __iter__(self) -> Iterator[str]:
        return iter(TARGET_MODULES)

    def __len__(self) -> int:
        return len(TARGET_MODULES)


@cache
def _target(module: str) -> Target:
    target: Target = import_module(f"trainwright.operators.{module}").TARGET
    return target


TARGETS = _Registry()
"""Every target by name."""
