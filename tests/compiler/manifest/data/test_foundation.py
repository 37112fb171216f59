"""What runs fetch, in the foundation of their namespace."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from tests.compiler.compiling import TODAY
from tests.compiler.example import RUN, Data
from tests.compiler.findings.page import overlay, write_example
from tests.compiler.manifest.data.prepared import MOUNT, SOURCE

from trainwright.explain import Explainer
from trainwright.project.build import build_project
from trainwright.project.built import Build
from trainwright.project.load import Project, load_sources

FOUNDATION = "lab/training/foundation/training.k8s.yaml"
PREPARED: Data = {"mounts": {"/data": MOUNT}, "prepare": {"/data/digits": SOURCE}}


def built(root: Path, **runs: Data) -> Build:
    write_example((), root)
    for name, change in runs.items():
        text = json.dumps(overlay(RUN, change | {"run": name}), indent=1)  # JSON is YAML 1.2
        (root / "charts" / "runs" / f"{name}.yaml").write_text(text, encoding="utf-8")
    return build_project(load_sources(Project(root)), TODAY)


def kinds(build: Build, path: str) -> list[str]:
    return [manifest["kind"] for manifest in build.outputs[path].manifests]


def test_one_job_in_the_foundation_whatever_the_number_of_runs(tmp_path: Path) -> None:
    alone = built(tmp_path / "one", example={}, first=PREPARED)
    both = built(tmp_path / "two", example={}, first=PREPARED, second=PREPARED)
    assert not both.failed
    assert kinds(both, FOUNDATION) == ["Namespace", "PersistentVolumeClaim", "Job"]
    assert both.outputs[FOUNDATION].digest == alone.outputs[FOUNDATION].digest
    for name in ("first", "second", "example"):
        assert kinds(both, f"lab/training/runs/{name}.k8s.yaml").count("Job") == 1


def test_the_job_goes_when_no_run_needs_it(tmp_path: Path) -> None:
    build = built(tmp_path / "project", example={}, first=PREPARED | {"state": "done"})
    assert kinds(build, FOUNDATION) == ["Namespace", "PersistentVolumeClaim"]
    job = built(tmp_path / "other", example={}, first=PREPARED).outputs[FOUNDATION].manifests[-1]
    assert "annotations" not in job["metadata"], "what is to be pruned must not be kept"


@pytest.mark.parametrize("change", [{"image": SOURCE["image"][:-2] + "00"}, {"cpu": 8}, {"region": "eu-west-1"}])
def test_runs_that_fetch_the_same_in_two_ways(tmp_path: Path, change: dict[str, Any]) -> None:
    other = PREPARED | {"prepare": {"/data/digits": SOURCE | change}}
    [finding] = built(tmp_path / "project", first=PREPARED, second=other).findings
    assert finding.code == "TW242"
    assert (finding.where.file, finding.where.pointer) == ("charts/runs/second.yaml", "/prepare/~1data~1digits")
    assert "run first fetches the same data into the same folder (/data/digits)" in finding.message


def test_runs_that_fetch_something_else_or_to_elsewhere_are_fine(tmp_path: Path) -> None:
    copy, letters = SOURCE | {"image": SOURCE["image"][:-2] + "00"}, SOURCE | {"revision": 2}
    other = {"mounts": {"/data": MOUNT}, "prepare": {"/data/copy": copy, "/data/letters": letters}}
    build = built(tmp_path / "project", first=PREPARED, second=other)
    assert build.findings == ()
    assert kinds(build, FOUNDATION).count("Job") == 3


def test_every_line_of_the_job_has_its_reason_in_the_file_of_its_run(tmp_path: Path) -> None:
    other = {"mounts": {"/data": MOUNT}, "prepare": {"/data/letters": SOURCE | {"revision": 2}}}
    output = built(tmp_path / "project", example={}, first=PREPARED, second=other).outputs[FOUNDATION]
    text = io.StringIO()
    YAML(typ="rt", pure=True).dump_all(output.manifests, text)
    answers = list(Explainer(text.getvalue(), "foundation.yaml", output).all())
    reasons = [answer.reason for answer in answers]
    assert "part of the object" not in reasons
    assert "the run itself" not in reasons
    assert not [reason for reason in reasons if "trains" in reason or "ranks" in reason]
    places = {answer.where.file for answer in answers if answer.where and answer.pointer.startswith("/Job")}
    assert {"charts/runs/first.yaml", "charts/runs/second.yaml"} <= places
    for answer in answers:
        if answer.text in ("value: /volume/data/digits/rmzqcx0z", "value: s3://example-datasets/digits"):
            assert answer.where
            assert answer.where.line
