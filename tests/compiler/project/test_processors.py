"""Compiling in several processes changes nothing but how long it takes."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from tests.compiler.compiling import TODAY
from tests.compiler.fleets import FLEET, fleet
from tests.compiler.projects import Scratch

from trainwright.project import processors
from trainwright.project.build import build_project
from trainwright.project.built import Build
from trainwright.project.load import Project, load_sources
from trainwright.project.processors import over_cold_processors, over_processors

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="fork is one of the two")


@pytest.fixture(params=["fork", "spawn"])
def _several(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes for few items too, whatever this machine has."""
    monkeypatch.setattr(processors, "METHOD", request.param)
    monkeypatch.setattr(processors, "FEWEST", {request.param: 2})
    monkeypatch.setattr(processors, "WARM", 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})


def _process_of(item: int) -> tuple[int, int]:
    if item == 13:
        raise ValueError("thirteen")
    return item, os.getpid()


@pytest.mark.usefixtures("_several")
def test_results_come_in_order_from_other_processes() -> None:
    results = list(over_processors(_process_of, range(12)))
    assert [item for item, _ in results] == list(range(12))
    assert [process == os.getpid() for _, process in results] == [True] + 11 * [False]


@pytest.mark.usefixtures("_several")
def test_what_starts_a_program_is_not_begun_here() -> None:
    assert os.getpid() not in {process for _, process in over_cold_processors(_process_of, range(12))}


MANY = """
    import json, os, sys
    from pathlib import Path
    from trainwright.cli.synth import write_with_cdk8s
    from trainwright.project import processors
    if __name__ == "__main__":
        processors.METHOD, processors.FEWEST = sys.argv[1], {sys.argv[1]: 2}
        os.sched_getaffinity = lambda _: {0, 1}
        things = {
            f"laptop/thing-{number}.k8s.yaml": [{"apiVersion": "v1", "kind": "Thing", "metadata": {"name": f"thing-{number}"}}]
            for number in range(9)
        }
        write_with_cdk8s(things, Path("out"))
        assert "jsii" not in sys.modules
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_each_process_writes_through_a_node_of_its_own(method: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(MANY), encoding="utf-8")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    subprocess.run([sys.executable, program, method], cwd=tmp_path, check=True, env={**os.environ, "TMPDIR": str(temporary)})
    assert not [*temporary.iterdir()], "what jsii unpacks is gone"
    written = {path.name: path.read_text() for path in (tmp_path / "out" / "laptop").iterdir()}
    assert written == {
        f"thing-{number}.k8s.yaml": f"apiVersion: v1\nkind: Thing\nmetadata:\n  name: thing-{number}\n" for number in range(9)
    }


@pytest.mark.usefixtures("_several")
def test_a_defect_in_a_process_is_raised_here() -> None:
    with pytest.raises(ValueError, match="thirteen"):
        list(over_processors(_process_of, range(20)))


def test_a_small_project_starts_no_process() -> None:
    assert {process for _, process in over_processors(_process_of, range(12))} == {os.getpid()}


@pytest.mark.usefixtures("_several")
def test_a_fleet_is_the_same() -> None:
    assert _seen(build_project(load_sources(Project(FLEET)), TODAY, spread=over_processors)) == _seen(fleet())


@pytest.mark.usefixtures("_several")
def test_errors_are_the_same_and_in_the_same_order(few: Scratch) -> None:
    runs = sorted(Path(few.project.runs).glob("*.yaml"))
    for number, path in enumerate(runs[:6]):
        wrong = ("cluster: nowhere\n", "attempt: 3\nmounts: {/x: {claim: gone}}\n")[number % 2]
        key = wrong.partition(":")[0]
        lines = [line for line in path.read_text(encoding="utf-8").splitlines(keepends=True) if not line.startswith(f"{key}:")]
        path.write_text("".join(lines) + wrong, encoding="utf-8")
    sources = load_sources(few.project)
    alone, spread = build_project(sources, TODAY), build_project(sources, TODAY, spread=over_processors)
    assert len(alone.failures) >= 4
    assert _seen(alone) == _seen(spread)


def _seen(build: Build) -> tuple[object, ...]:
    """All that a command may look at."""
    runs = {
        name: (built.compiled, built.facts, built.output.header, built.output.digest, built.output.provenance())
        for name, built in build.runs.items()
    }
    foundations = {key: (one.serves, one.output.digest, one.output.provenance()) for key, one in build.foundations.items()}
    return runs, foundations, build.failures, build.findings
