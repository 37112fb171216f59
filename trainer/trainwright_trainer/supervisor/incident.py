"""Incident: a run that hangs, from the first report until every pod has said how its ranks stand."""

from __future__ import annotations

from collections.abc import Mapping

from trainwright_trainer.contract.exit_codes import Cause
from trainwright_trainer.observe.hang import cause_of
from trainwright_trainer.supervisor.wire.messages import Dumped, Stuck

DUMP_SECONDS = 12.0
"""For every pod to dump: a second for the stacks, and some for its volume."""


class Hang:
    """Collects one answer from each pod.

    Args:
        found: The first report.
        pods: Node -> the pod's name in a sentence.
    """

    def __init__(self, found: Stuck, pods: Mapping[int, str]) -> None:
        self._found = found
        self._missing = dict(pods)
        self._dumps: list[Dumped] = []

    def answer(self, node: int, dumped: Dumped) -> None:
        """Note an answer; a second one is passed over."""
        if self._missing.pop(node, None) is not None:
            self._dumps.append(dumped)

    @property
    def complete(self) -> bool:
        return not self._missing

    def cause(self) -> Cause:
        """Of the end of the run, with what is known by now."""
        return cause_of(self._found, self._dumps, self._missing.values())
