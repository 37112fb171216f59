"""The verdict of ``make rehearse-all``: which runs played, how long each took, and what did not play.

``python tools/rehearsed.py FILE.xml ...`` reads what pytest wrote (``--junit-xml``), one file for each environment. What was
skipped has not played, and an environment without a file is one that could not be made or did not come so far.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree


class Played(NamedTuple):
    """One run, or what stands for several, in one environment."""

    environment: str
    name: str
    seconds: float
    why_not: str
    """Empty where it has played."""


def played(path: Path) -> Iterator[Played]:
    """What a file says."""
    environment = path.stem.removeprefix("rehearsed-")
    cases = list(ElementTree.parse(path).iter("testcase")) if path.exists() else []  # noqa: S314 - pytest's own
    if not cases:
        yield Played(environment, "all of its runs", 0.0, "nothing was rehearsed there: what make said above says why")
    for case in cases:
        ends = [end for end in case if end.tag in ("failure", "error", "skipped")]
        why = next((f"{end.tag}: {end.get('message', '').partition(chr(10))[0]}" for end in ends), "")
        yield Played(environment, case.get("name", ""), float(case.get("time", 0.0)), why)


def verdict(paths: Sequence[Path]) -> tuple[str, int]:
    """What to print, and the exit code."""
    every = [one for path in paths for one in played(path)]
    lines = [f"{one.environment:24} {one.seconds:6.0f} s  {one.name}{f'  {one.why_not}' if one.why_not else ''}" for one in every]
    left = [one for one in every if one.why_not]
    seconds = sum(one.seconds for one in every)
    ends = f"{len(left)} of {len(every)} did not play" if left else f"all {len(every)} played"
    return "\n".join([*lines, f"Rehearsed what dist/ has: {ends}, in {seconds / 60:.0f} minutes."]), int(bool(left))


if __name__ == "__main__":
    said, code = verdict([Path(path) for path in sys.argv[1:]])
    print(said)
    sys.exit(code)
