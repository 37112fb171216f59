"""``trainwright validate`` as a process: its exit codes, its two forms of output, and wrong usage."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.compiler.projects import Scratch, assert_ended
from tests.compiler.validate.samples import PROJECT, ROOT

UNSET = {"TRAINWRIGHT_CRDS": ""}


@pytest.fixture
def here(tmp_path: Path) -> Scratch:
    shutil.copytree(PROJECT, tmp_path / "project")
    return Scratch(tmp_path / "project")


def test_dist_of_this_repository_is_in_order() -> None:
    ended = Scratch(ROOT).run("validate", "dist")
    assert_ended(ended, 0)
    assert "no errors" in ended.stdout


def test_errors_end_with_1_and_name_their_place(here: Scratch) -> None:
    here.edit("manifests/widget.yaml", "size: 3", "size: big")
    ended = here.run("validate", "--crds", "crds", "manifests", environment=UNSET)
    place = "manifests/widget.yaml:5:3: error TW705 /spec/size must be a whole number"
    assert_ended(ended, 1, place, "fix: ", "only the names of fields")
    assert ended.stdout == "3 objects, 1 error, 1 by names of fields only\n"


def test_json_has_everything(here: Scratch) -> None:
    here.edit("manifests/widget.yaml", "size: 3", "size: 11")
    ended = here.run("validate", "--json", "--crds", "crds", "manifests", environment=UNSET)
    assert_ended(ended, 1)
    data = json.loads(ended.stdout)
    assert (data["objects"], data["not_validated"], data["names_only"]) == (3, {}, {"kubeflow.org/v2beta1 MPIJob": 1})
    places = [(it["code"], it["severity"], it["file"], it["line"], it["column"], it["pointer"]) for it in data["findings"]]
    assert places == [
        ("TW702", "warning", "manifests/mpijob.yaml", 2, 1, "/kind"),
        ("TW705", "error", "manifests/widget.yaml", 5, 3, "/spec/size"),
    ]
    assert ended.stderr == ""


def test_a_kind_without_a_schema_is_loud_and_fails_where_it_must(here: Scratch) -> None:
    ended = here.run("validate", "manifests/widget.yaml", environment=UNSET)
    assert_ended(ended, 0, "warning TW702", "trainwright crds")
    assert "1 NOT VALIDATED: no schema of example.com/v1 Widget" in ended.stdout
    assert_ended(here.run("validate", "--strict", "manifests/widget.yaml", environment=UNSET), 1)
    assert_ended(here.run("validate", "--strict", "--crds", "crds", "manifests/widget.yaml", environment=UNSET), 0)


@pytest.mark.parametrize("folder", [".", "manifests"])
def test_fetched_crds_are_found_from_anywhere_in_the_project(here: Scratch, folder: str) -> None:
    shutil.copytree(here.path("crds"), here.path("build/crds"))
    ended = here.run("validate", "--strict", str(here.path("manifests/widget.yaml")), environment=UNSET, folder=folder)
    assert_ended(ended, 0)
    assert ended.stdout == "1 object, no errors\n"


def test_the_folder_can_be_set_for_a_whole_session(here: Scratch) -> None:
    environment = {"TRAINWRIGHT_CRDS": str(here.path("crds"))}
    assert_ended(here.run("validate", "--strict", "manifests/widget.yaml", environment=environment), 0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "FILES"),
        (["manifests", "--crds", "nothing"], "nothing is not a folder"),
        (["manifests", "--kubernetes", "1.99"], "there are no schemas of Kubernetes 1.99"),
        (["charts/clusters/../../build"], "build"),
        (["manifests", "--nothing"], "--nothing"),
    ],
)
def test_wrong_usage_ends_with_2(here: Scratch, arguments: list[str], words: str) -> None:
    here.path("build").mkdir()
    assert_ended(here.run("validate", *arguments, environment=UNSET), 2, words)


def test_a_file_that_is_not_there_is_a_finding(here: Scratch) -> None:
    assert_ended(here.run("validate", "manifests/nothing.yaml", environment=UNSET), 1, "TW101")


def test_what_lies_in_dist_is_for_the_version_in_its_profile(here: Scratch) -> None:
    """managedBy came with 1.30. Without a profile that can be read, and elsewhere, the newest version holds."""
    here.edit("manifests/job.yaml", "spec:\n  template:", "spec:\n  managedBy: example.com/x\n  template:")
    here.write("dist/lab/training/runs/job.k8s.yaml", here.read("manifests/job.yaml"))
    assert_ended(here.run("validate", "dist", "manifests/job.yaml", environment=UNSET), 0)
    here.edit("charts/clusters/lab.yaml", '"1.34"', '"1.29"')
    ended = here.run("validate", "dist", "manifests/job.yaml", environment=UNSET)
    assert_ended(ended, 1, "dist/lab/training/runs/job.k8s.yaml", "TW703")
    assert "manifests/job.yaml" not in ended.stderr
    assert_ended(here.run("validate", "--kubernetes", "1.34", "dist", environment=UNSET), 0)
    here.edit("charts/clusters/lab.yaml", "node_pools:", "node_pool:")
    assert_ended(here.run("validate", "dist", environment=UNSET), 0)


def test_the_version_of_the_cluster_decides(here: Scratch) -> None:
    here.edit("manifests/job.yaml", "spec:\n  template:", "spec:\n  managedBy: example.com/x\n  template:")
    assert_ended(here.run("validate", "--kubernetes", "1.34", "manifests/job.yaml", environment=UNSET), 0)
    assert_ended(here.run("validate", "--kubernetes", "v1.29.3", "manifests/job.yaml", environment=UNSET), 1, "TW703")
