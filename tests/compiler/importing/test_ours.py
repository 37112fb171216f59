"""What this repository emits, imported on its own profiles, is the same run."""

from __future__ import annotations

import json

import pytest
from tests.compiler.compiling import TODAY
from tests.compiler.projects import ROOT

from trainwright.importing.bring import bring
from trainwright.importing.read import Source, read
from trainwright.project.build import build_run
from trainwright.project.load import Project, RunFile, load_sources
from trainwright.reading.document import Document

SOURCES = load_sources(Project(ROOT))


def data_beneath(data: dict[str, object]) -> dict[str, object]:
    return SOURCES.defaults.merged(Document("run", data, {})).data if SOURCES.defaults else data


def emitted(file: RunFile) -> tuple[list[str], str]:
    """Its objects, without its identity in them, and their text."""
    compiled = build_run(file, SOURCES, TODAY).compiled
    objects = [json.dumps(one) for one in compiled.manifests]
    return [one.replace(compiled.identity, "…") for one in objects], "---\n".join(f"{one}\n" for one in objects)


@pytest.mark.parametrize("name", [name for name, file in SOURCES.runs.items() if file.run.workload.kind == "command"])
def test_a_command_comes_back_with_the_same_objects(name: str) -> None:
    file = SOURCES.runs[name]
    objects, text = emitted(file)
    profile = SOURCES.clusters[file.run.cluster].cluster
    found = bring(read([Source(name, text)]), file.run.cluster, profile, None, data_beneath)
    assert not found.lacks
    (run,) = found.runs
    assert [json.dumps(one).replace(run.compiled.identity, "…") for one in run.compiled.manifests] == objects


def test_a_run_under_our_supervisor_is_refused() -> None:
    file = next(file for file in SOURCES.runs.values() if file.run.workload.kind == "trainer")
    found = bring(read([Source("dist", emitted(file)[1])]), "imported")
    assert not found.runs
    assert "that run's own file has all that it says" in found.failed[0].findings[0].message
