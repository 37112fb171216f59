"""What all tests share, and what every test run says at its end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from tests.conformance_record import NIGHTLY, OPTION

VARIABLE = "TRAINWRIGHT_CRDS"
SKIPS = "TRAINWRIGHT_SKIPS"
"""Names the file that gets a line for each skipped test: its reason. `make test` counts those of all its parts."""

settings.register_profile(
    "trainwright", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow],
    phases=(Phase.explicit, Phase.generate, Phase.shrink),  # without Phase.explain, which traces every line and takes minutes
)
settings.load_profile("trainwright")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(OPTION, action="store_true", help="write down which engine passed which tests of the conformance suite")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    """Leave those of the night out, unless somebody says by ``-m`` what to run."""
    left_out = [] if config.option.markexpr else [item for item in items if item.get_closest_marker(NIGHTLY)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The reasons of skips, for `make test`; and one loud count of what was not validated, where upstream CRDs are not there."""
    reports = terminalreporter.stats.get("skipped", [])
    if place := os.environ.get(SKIPS):
        reasons = [str(report.longrepr[2]).removeprefix("Skipped: ") for report in reports]
        Path(place).write_text("".join(f"{' '.join(reason.split())}\n" for reason in reasons), encoding="utf-8")
    skipped = [report for report in reports if VARIABLE in str(report.longrepr)]
    if skipped:
        terminalreporter.section("NOT VALIDATED", red=True, bold=True)
        what = f"{len(skipped)} tests of custom resources were skipped"
        terminalreporter.write_line(f"{what}: run `trainwright crds`, and set {VARIABLE} to build/crds.")
