"""What every test run says at its end."""

from __future__ import annotations

import pytest

VARIABLE = "TRAINWRIGHT_CRDS"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One loud count of what was not validated, where upstream CRDs are not there."""
    skipped = [report for report in terminalreporter.stats.get("skipped", []) if VARIABLE in str(report.longrepr)]
    if skipped:
        terminalreporter.section("NOT VALIDATED", red=True, bold=True)
        what = f"{len(skipped)} tests of custom resources were skipped"
        terminalreporter.write_line(f"{what}: run `make crds`, and set {VARIABLE} to build/crds.")
