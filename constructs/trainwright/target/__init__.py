"""Targets: kinds of Kubernetes objects that can carry a run.

A target is one module or package here, with all that is known of its operator: ``TARGET`` in it is the target. To add one, write
its module, and its name in ``TargetName``.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import TYPE_CHECKING, get_args

from trainwright.handshake import TargetName

if TYPE_CHECKING:
    from trainwright.target.base import Target


class _Registry(MutableMapping[str, "Target"]):
    """Targets by name, each loaded when it is asked for: a run needs one of them."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._targets: dict[str, Target | None] = dict.fromkeys(names)

    def __getitem__(self, name: str) -> Target:
        target = self._targets[name]
        if target is None:
            module = import_module(f"trainwright.target.{name.replace('-', '_')}")
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


TARGETS = _Registry(get_args(TargetName))
"""Every target by name."""

