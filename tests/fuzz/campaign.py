"""Many inputs in a row, and what did not hold."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tests.fuzz.inputs import made
from tests.fuzz.oracle import examine, misread

from trainwright.compile import CompiledRun

WRITTEN_TOGETHER = 40
"""Compiled inputs that are written to one file: a call of cdk8s costs more than a document."""


@dataclass(slots=True)
class Campaign:
    """What became of the inputs of a seed."""

    seed: int
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def reproducer(self, number: int) -> str:
        return f"python -m tests.fuzz 1 --seed {self.seed} --first {number}"

    def run(self, numbers: range, progress: Callable[[Campaign], None] = lambda _: None) -> None:
        """Examine the inputs of these numbers."""
        waiting: list[tuple[int, CompiledRun]] = []
        for number in numbers:
            result = self._examine(number)
            if result is not None:
                waiting.append((number, result))
            if len(waiting) >= WRITTEN_TOGETHER:
                self._read_back(waiting)
                waiting = []
            progress(self)
        if waiting:
            self._read_back(waiting)

    def _examine(self, number: int) -> CompiledRun | None:
        self.counts["inputs"] += 1
        item = made(self.seed, number)
        try:
            result = examine(item)
        except BaseException as error:  # whatever it is, the campaign goes on
            if isinstance(error, KeyboardInterrupt):
                raise
            self._fail(number, f"{item.name}\n{''.join(_last(error))}")
            return None
        self.counts["refused" if result is None else "compiled"] += 1
        self.counts["overridden and compiled"] += result is not None and bool(result.overridden)
        return result

    def _read_back(self, results: list[tuple[int, CompiledRun]]) -> None:
        wrong = list(misread(results))
        if wrong and len(results) > 1:  # one document that is no YAML hides the others of its file
            wrong = [found for one in results for found in misread([one])]
        for number, what in wrong:
            self._fail(number, what)

    def _fail(self, number: int, what: str) -> None:
        self.counts["failed"] += 1
        self.failures.append(f"{self.reproducer(number)}\n{what}")


def _last(error: BaseException) -> Iterator[str]:
    """The end of a traceback, without the chain."""
    yield from traceback.format_exception(type(error), error, error.__traceback__, limit=-3, chain=False)
