"""What this repository emits, imported on its own profiles, is the same run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.compiler.compiling import TODAY
from tests.compiler.fleets import FLEET, fleet
from tests.compiler.projects import ROOT

from trainwright.compile import CompiledRun
from trainwright.importing.bring import Brought, bring
from trainwright.importing.read import Source, read
from trainwright.manifest.data import hub
from trainwright.manifest.provenance import split
from trainwright.project.build import build_run
from trainwright.project.load import Project, Sources, load_sources
from trainwright.reading.document import Document
from trainwright.run import Preparation

SOURCES = load_sources(Project(ROOT))
OF_FLEET = load_sources(Project(FLEET))


def plain(compiled: CompiledRun) -> list[str]:
    """Its objects, without its identity in them."""
    return [json.dumps(one).replace(compiled.identity, "…") for one in compiled.manifests]


def imported(texts: list[str], cluster: str, sources: Sources) -> Brought:
    defaults = sources.defaults
    given = read([Source(f"{number}.yaml", text) for number, text in enumerate(texts)])
    return bring(given, cluster, sources.clusters[cluster].cluster, None,
                 lambda data: defaults.merged(Document("run", data, {})).data if defaults else data)  # fmt: skip


def assert_back(found: Brought, compiled: CompiledRun) -> None:
    assert not found.lacks
    assert not found.failed
    (run,) = found.runs
    assert not run.dropped
    assert plain(run.compiled) == plain(compiled)


def committed(name: str) -> list[str]:
    """What ``dist/`` has of a run, and of the foundation of its namespace."""
    (file,) = (ROOT / "dist").glob(f"*/*/runs/{name}.k8s.yaml")
    (foundation,) = (file.parent.parent / "foundation").iterdir()
    return [one.read_text(encoding="utf-8") for one in (file, foundation)]


def of_fleet(name: str) -> tuple[CompiledRun, list[str]]:
    compiled = fleet().runs[name].compiled
    foundation = fleet().foundations[f"{compiled.cluster.cluster}/{compiled.run.namespace}"].output.manifests
    return compiled, ["---\n".join(f"{json.dumps(one)}\n" for one in (*compiled.manifests, *foundation))]


def test_every_run_of_dist_is_asked_for() -> None:
    assert {Path(one.stem).stem for one in (ROOT / "dist").glob("*/*/runs/*")} == set(SOURCES.runs)


@pytest.mark.parametrize("name", SOURCES.runs)
def test_a_run_of_dist_comes_back(name: str) -> None:
    file = SOURCES.runs[name]
    assert_back(imported(committed(name), file.run.cluster, SOURCES), build_run(file, SOURCES, TODAY).compiled)


@pytest.mark.parametrize("name", sorted(fleet().runs)[::5])
def test_a_run_of_the_fleet_comes_back(name: str) -> None:
    compiled, texts = of_fleet(name)
    assert_back(imported(texts, compiled.run.cluster, OF_FLEET), compiled)


@pytest.mark.parametrize("name", ["stdlib-lm", "own-script"])
def test_what_came_back_comes_back_as_itself(name: str) -> None:
    cluster = SOURCES.runs[name].run.cluster
    (first,) = imported(committed(name), cluster, SOURCES).runs
    again = ["---\n".join(f"{json.dumps(one)}\n" for one in first.compiled.manifests)]
    (second,) = imported(again, cluster, SOURCES).runs
    assert second.text == first.text


@pytest.mark.parametrize("stated", [
    {"source": f"hf://o/n@{'a' * 40}", "include": ["*.$afetensors", "b"]},
    {"source": f"hf://datasets/o/n@{'a' * 40}", "exclude": ["c"], "form": "dataset", "subset": "d$", "endpoint": "https://hub.example.com",
     "credentials": {"token": {"secret": "hub", "key": "token"}}},
])  # fmt: skip
def test_what_is_fetched_of_the_hub_comes_back(stated: dict[str, object]) -> None:
    preparation = Preparation.model_validate({"image": "fetch", **stated})
    told = split(hub.told(preparation, "run:/prepare/data", "/volume/data"))[0]
    assert Preparation.model_validate({"image": "fetch", **hub.said_by(told["command"], told["env"])}) == preparation


def test_data_whose_job_is_not_given_is_asked_for() -> None:
    found = imported(committed("llama-1b-ddp")[:1], "h100-ib", SOURCES)
    assert "is fetched by a Job that is not among the objects; add those of the foundation" in found.failed[0].findings[0].message


def test_a_specification_that_was_edited_is_refused() -> None:
    text = committed("stdlib-lm")[0].replace('"seed": 0', '"seeds": 0')
    found = imported([text], "laptop", SOURCES)
    assert "its run.json is of another release of Trainwright, or was edited" in found.failed[0].findings[0].message
