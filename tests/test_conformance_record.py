"""That no promise of an engine stands in the docs which its tests did not keep."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conformance_record import OPTION

ROOT = Path(__file__).resolve().parents[1]
CONFTEST = """
from pathlib import Path

import pytest
from tests import conformance_record

conformance_record.RECORDS = Path(__file__).parent

def pytest_addoption(parser):
    parser.addoption(conformance_record.OPTION, action="store_true")

def pytest_collection_modifyitems(items, config):
    conformance_record.watch(config, Path(__file__).parent, items)

@pytest.fixture(scope="session", params=["one", "zero-2"])
def engine(request):
    return request.param
"""
SUITE = """
import pytest

@pytest.mark.parametrize("worlds", [1, 2], ids=["1 to 2", "2 to 4"])
def test_resumes(engine, worlds):
    pass

def test_learns(engine):
    pass
"""
RECORD = {name: ["test_learns", "test_resumes[1 to 2]", "test_resumes[2 to 4]"] for name in ("one", "zero-2")}


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    folder = tmp_path / "suite"
    folder.mkdir()
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_kills.py").write_text(SUITE)
    (folder / "suite.json").write_text(json.dumps(RECORD))
    return folder


def session(suite: Path, *arguments: str) -> tuple[int, str]:
    """Exit code and output of a session with these arguments."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--rootdir=.", "-p", "no:cacheprovider", *arguments], cwd=suite, capture_output=True,
        text=True, check=False, env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    return done.returncode, done.stdout + done.stderr


def test_what_passed_is_written(suite: Path) -> None:
    (suite / "suite.json").unlink()
    code, output = session(suite, ".", OPTION)
    assert code == 0, output
    assert json.loads((suite / "suite.json").read_text()) == RECORD


def test_a_session_that_keeps_all_promises_is_green(suite: Path) -> None:
    code, output = session(suite, ".")
    assert code == 0, output


@pytest.mark.parametrize("mark", ["skip", "xfail"])
def test_a_promise_that_was_not_kept_fails_the_session(suite: Path, mark: str) -> None:
    marked = f"@pytest.mark.{mark}(reason='today')\ndef test_learns"
    (suite / "test_kills.py").write_text(SUITE.replace("def test_learns", marked))
    code, output = session(suite, ".")
    assert code == 1, output
    assert "zero-2: test_learns has not passed" in output
    code, output = session(suite, ".", "-k", "learns")  # some tests promise nothing
    assert code == 0, output


def test_a_test_that_is_not_recorded_fails_the_session(suite: Path) -> None:
    (suite / "suite.json").write_text(json.dumps({**RECORD, "one": ["test_learns"]}))
    code, output = session(suite, ".")
    assert code == 1, output
    assert "one: test_resumes[2 to 4] has passed, and is not recorded" in output
    assert "zero-2" not in output
