"""Which tests of the conformance suite each engine has passed: sessions of its tests write it, and the docs' table is made of it.

``tests/conformance/FOLDER.json`` is engine -> tests. A session that ran all tests of the folder fails where others have passed
than the file says; with ``--record-conformance`` it writes them instead. A session of some of them compares nothing. Those that
only the night runs stay in the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

RECORDS = Path(__file__).parent / "conformance"
MODULES = frozenset({"test_conformance", "test_agreement", "test_resharding", "test_kills", "test_stragglers"})
OPTION = "--record-conformance"
NIGHTLY = "nightly"
"""The mark of tests that a session leaves out, unless ``-m`` says otherwise."""
_SELECTS = ("keyword", "markexpr", "lf", "deselect", "ignore", "ignore_glob", "collectonly")
"""pytest's options by which a session has some tests only, or runs none."""


def recorded() -> dict[str, list[str]]:
    """Engine -> tests that it has passed, each with its case where it has several: ``test_it[2 to 4]``."""
    files = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(RECORDS.glob("*.json"))]
    return {engine: tests for file in files for engine, tests in file.items()}


def watch(config: pytest.Config, folder: Path, items: Iterable[pytest.Item]) -> None:
    """Have this session compare or write what passes of a folder's suite, if it has all of it. ``items`` are what will run."""
    ours = (item for item in items if item.path.parent == folder and item.path.stem in MODULES)
    suite = [item for item in ours if "engine" in getattr(item, "fixturenames", ())]
    given = [(config.invocation_params.dir / argument).resolve() for argument in config.args]
    whole = any(path in given for path in (folder, *folder.parents))
    if suite and whole and not any(getattr(config.option, name, None) for name in _SELECTS):
        config.pluginmanager.register(_Session(RECORDS / f"{folder.name}.json", suite))


class _Session:
    """The hooks of a session that has a whole suite."""

    def __init__(self, file: Path, suite: list[pytest.Item]) -> None:
        self._file = file
        self._suite = {item.nodeid: _named(item) for item in suite}
        self._passed: dict[str, list[str]] = {engine: [] for engine, _ in self._suite.values()}
        recorded = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        for engine, test in (self._suite[item.nodeid] for item in suite if item.get_closest_marker(NIGHTLY)):
            self._passed[engine] += [test] if test in recorded.get(engine, []) else []
        self._difference: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed and not hasattr(report, "wasxfail") and report.nodeid in self._suite:
            engine, test = self._suite[report.nodeid]
            self._passed[engine].append(test)

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if exitstatus != pytest.ExitCode.OK:
            return  # red as it is, and what it has not run says nothing
        found = {engine: sorted(tests) for engine, tests in sorted(self._passed.items())}
        if session.config.getoption(OPTION):
            self._file.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
        elif (said := json.loads(self._file.read_text(encoding="utf-8"))) != found:
            lost, new = _without(said, found, "has not passed"), _without(found, said, "has passed, and is not recorded")
            self._difference = [*lost, *new]
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._difference:
            terminalreporter.section(f"{self._file.name} is not what this session found", red=True, bold=True)
            repair = f"{OPTION} writes it anew, and pytest tests/docs --snapshot-update the docs"
            terminalreporter.write_line("\n".join([*self._difference, repair]))


def _named(item: pytest.Item) -> tuple[str, str]:
    """Its engine, and its name with the other parameters: ``test_it[zero-2-2 to 4]`` is ``test_it[2 to 4]`` of ``zero-2``."""
    assert isinstance(item, pytest.Function)
    engine = str(item.callspec.params["engine"])
    return engine, item.name.replace(f"[{engine}]", "").replace(f"[{engine}-", "[")


def _without(tests: dict[str, list[str]], others: dict[str, list[str]], what: str) -> list[str]:
    return [f"{engine}: {test} {what}" for engine, named in tests.items() for test in named if test not in others.get(engine, [])]
