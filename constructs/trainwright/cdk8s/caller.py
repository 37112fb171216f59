"""The line of a chart author's own file: the place that a finding on a construct names."""

from __future__ import annotations

import sys
from pathlib import Path

from trainwright.findings.locate import Locator

_INNER = ("trainwright.cdk8s.", "jsii.")
"""Modules between the author's line and us: jsii builds every construct through its metaclass."""


def caller() -> Locator:
    """A locator whose every place is the line of the nearest caller outside of this package and jsii."""
    frame = sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).startswith(_INNER):
        frame = frame.f_back
    path = Path(frame.f_code.co_filename)
    shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    return Locator(run_file=shown.as_posix(), run_positions={"": (frame.f_lineno, 1)})
