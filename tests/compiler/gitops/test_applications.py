"""What Argo CD is told: Applications for the folders that there are, with what the runs in them need, and nothing else."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from ruamel.yaml import YAML
from tests.compiler.compiling import TODAY
from tests.compiler.example import compiled
from tests.compiler.findings.page import overlay
from tests.compiler.objects import assert_accepted
from tests.compiler.projects import ROOT, Scratch, assert_ended, scratch
from tests.compiler.targets import CASES as TARGETS
from tests.compiler.targets import on, profile_for

from trainwright.gitops.applications import Folder, argo_cd_objects, health_patch
from trainwright.gitops.model import GitOps
from trainwright.manifest.provenance import split
from trainwright.operators import TARGETS as REGISTRY
from trainwright.project.build import build_project
from trainwright.project.load import load_sources
from trainwright.project.scope import obstacles
from trainwright.project.status import compare, last_records

Data = dict[str, Any]
URL = "https://git.example.com/ml/training.git"
FILE = "charts/gitops.yaml"
APPLICATIONS = "dist/_argo-cd/applications/argo-cd.k8s.yaml"
HEALTH = "dist/_argo-cd/health/argo-cd.k8s.yaml"
COMPARE = "argocd.argoproj.io/compare-options"


def objects(folders: list[Folder], **settings: Any) -> list[Data]:
    return [split(tree)[0] for tree in argo_cd_objects(GitOps(repository=URL, **settings), folders)]


def runs_of(target: str, queue: str | None = None) -> tuple[Data, ...]:
    cluster = profile_for(target)
    if queue:
        queues = {queue: {"managed": False}}
        cluster = overlay(cluster, {"kueue": {"version": "0.19"}, "namespaces": {"training": {"queues": queues}}})
    return compiled(on(target, queue=queue), cluster).manifests


def application(manifests: tuple[Data, ...], part: str = "runs", defaulted: bool = False) -> Data:
    return objects([Folder("west", "training", part, manifests, defaulted)])[1]


def options(one: Data) -> set[str]:
    return set(one["spec"]["syncPolicy"].get("syncOptions", ()))


# What each kind needs.

QUEUED = [name for name, case in TARGETS.items() if case.kueue]


@pytest.mark.parametrize("target", REGISTRY)
def test_runs_that_no_queue_admits_are_compared_whole(target: str) -> None:
    one = application(runs_of(target))
    assert "ignoreDifferences" not in one["spec"]
    assert options(one) == {"ApplyOutOfSyncOnly=true"}
    assert "annotations" not in one["metadata"]


@pytest.mark.parametrize("target", QUEUED)
def test_what_a_queue_writes_is_ignored_for_the_kinds_that_are_there(target: str) -> None:
    one = application(runs_of(target, "gpus"))
    group, kind = REGISTRY[target].kind
    (entry,) = one["spec"]["ignoreDifferences"]
    assert (entry.get("group", ""), entry["kind"]) == (group, kind)
    assert entry["jqPathExpressions"] == list(REGISTRY[target].queue_writes)
    by_key = {"ServerSideApply=true"} if target == "train-job" else set()
    assert options(one) == {"ApplyOutOfSyncOnly=true", "RespectIgnoreDifferences=true"} | by_key
    assert one["metadata"].get("annotations", {}) == ({COMPARE: "ServerSideDiff=true"} if by_key else {})


def test_several_kinds_stand_side_by_side_each_once() -> None:
    one = application((*runs_of("indexed-job", "gpus"), *runs_of("job-set", "gpus"), *runs_of("indexed-job", "gpus")))
    assert [entry["kind"] for entry in one["spec"]["ignoreDifferences"]] == ["Job", "JobSet"]


def test_a_queue_called_default_admits_runs_that_name_none() -> None:
    one = application(runs_of("indexed-job"), defaulted=True)
    assert [entry["kind"] for entry in one["spec"]["ignoreDifferences"]] == ["Job"]


def test_a_job_of_the_foundation_is_none_of_a_queue() -> None:
    fetch: Data = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "fetch", "labels": {}}}
    assert "ignoreDifferences" not in application((fetch,), "foundation", defaulted=True)["spec"]


def test_an_object_that_is_too_large_for_an_annotation_is_applied_by_the_server() -> None:
    for part in ("foundation", "runs"):
        for size, server_side in ((200_000, False), (300_000, True)):
            large: Data = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "files"}, "data": {"x": "x" * size}}
            assert ("ServerSideApply=true" in options(application((large,), part))) == server_side


def test_what_leaves_git_leaves_the_cluster_the_last_run_too() -> None:
    foundation, runs = (application((), part)["spec"]["syncPolicy"] for part in ("foundation", "runs"))
    assert foundation == {"automated": {"prune": True, "selfHeal": True}}
    assert runs["automated"] == {"prune": True, "selfHeal": True, "allowEmpty": True}
    assert runs["retry"]["limit"] < 0
    assert runs["retry"]["refresh"], "a retry without an end would keep to the commit that failed"


def test_nothing_that_restarts_runs_or_takes_them_along_is_ever_written() -> None:
    for kind in ("Application", "ApplicationSet"):
        folders = [Folder("west", "training", "runs", runs_of(target, "gpus")) for target in QUEUED]
        text = json.dumps(objects(folders, kind=kind))
        assert not re.search(r"Replace=true|Force=true|sync-wave|hook|finalizers", text)


# Where from, where to.


def test_repository_revision_folder_and_destinations_are_as_stated() -> None:
    folders = [Folder("west", "a", "runs", ()), Folder("east", "b", "foundation", ()), Folder("east", "b", "runs", ())]
    project, *applications = objects(
        folders, revision="release", folder="ml/training", project="nlp", namespace="gitops",
        destinations={"west": "https://10.0.0.1:6443"},
    )
    west, east = {"server": "https://10.0.0.1:6443", "namespace": "a"}, {"name": "east", "namespace": "b"}
    assert project["spec"]["destinations"] == [west, east]
    assert project["spec"]["sourceRepos"] == [URL]
    assert [one["spec"]["destination"] for one in applications] == [west, east, east]
    assert [one["spec"]["source"] for one in applications] == [
        {"repoURL": URL, "targetRevision": "release", "path": f"ml/training/{folder.path}"} for folder in folders
    ]
    assert {one["spec"]["project"] for one in applications} == {project["metadata"]["name"]} == {"nlp"}
    assert {one["metadata"]["namespace"] for one in (project, *applications)} == {"gitops"}


@pytest.mark.parametrize("kind", ["Application", "ApplicationSet"])
def test_all_of_it_is_accepted(kind: str) -> None:
    folders = [Folder("west", "training", part, runs_of(target, "gpus")) for target in QUEUED for part in ("foundation", "runs")]
    for one in objects(folders, kind=kind):
        assert_accepted(one, "1.34")
    assert_accepted(health_patch(GitOps(repository=URL)), "1.34")


def test_a_set_makes_the_same_applications_and_deletes_none() -> None:
    folders = [Folder("west", "training", "foundation", ()), Folder("west", "training", "runs", runs_of("train-job", "gpus"))]
    (_, *wanted), (_, made) = objects(folders), objects(folders, kind="ApplicationSet")
    assert made["spec"]["syncPolicy"] == {"applicationsSync": "create-update", "preserveResourcesOnDeletion": True}
    template, (generator,) = made["spec"]["template"], made["spec"]["generators"]
    for element, one in zip(generator["list"]["elements"], wanted, strict=True):
        rendered = json.loads(_filled(json.dumps(template), element))
        patch = YAML(typ="safe").load(_filled(made["spec"]["templatePatch"], element))
        assert {"annotations": {}, **one["metadata"]} == {"namespace": "argocd", **rendered["metadata"], **patch["metadata"]}
        assert one["spec"] == {**rendered["spec"], **patch["spec"]}
        assert rendered["spec"]["source"] == one["spec"]["source"]


def _filled(text: str, element: Data) -> str:
    """As Go's templates do for a path and for `toJson`, which is all that is used here."""
    def value(match: re.Match[str]) -> str:
        found: Any = element
        for key in match["path"].split(".")[1:]:
            found = found[key]
        return json.dumps(found) if match["json"] else str(found)

    return re.sub(r"\{\{ (?P<json>toJson )?(?P<path>[.\w]+) \}\}", value, text)


# In a project.


@pytest.fixture
def here(tmp_path: Any) -> Scratch:
    return scratch(tmp_path / "project")


def codes(here: Scratch) -> set[tuple[str, str | None]]:
    """Code and file of each finding of `check` about files and their records."""
    records, build = last_records(here.project), build_project(load_sources(here.project), TODAY)
    found = [*build.findings, *obstacles(here.project, build, records).all, *compare(here.project, build, records)]
    return {(one.code, one.where.file) for one in found if one.code.startswith("TW50")}


def test_every_folder_of_dist_has_its_application_and_none_syncs_what_argo_cd_is_told() -> None:
    project, *applications = YAML(typ="safe").load_all((ROOT / APPLICATIONS).read_text(encoding="utf-8"))
    synced = {one["spec"]["source"]["path"] for one in applications}
    assert synced == {path.relative_to(ROOT).as_posix() for path in ROOT.glob("dist/[!_]*/*/*")}
    assert not any(path.startswith(folder) for path in (APPLICATIONS, HEALTH) for folder in synced)
    allowed = {(one["group"], one["kind"]) for one in project["spec"]["clusterResourceWhitelist"]}
    wide = {
        (one["apiVersion"].rpartition("/")[0], one["kind"])
        for path in ROOT.glob("dist/[!_]*/*/*/*.yaml") for one in YAML(typ="safe").load_all(path)
        if "namespace" not in one["metadata"]
    }
    assert wide == allowed


def test_what_is_stale_edited_missing_or_foreign_is_found(here: Scratch) -> None:
    assert codes(here) == set()
    here.edit(FILE, "project: training", "project: nlp")
    assert codes(here) == {("TW502", FILE)}
    here.edit(FILE, "project: nlp", "project: training")
    here.write(HEALTH, here.read(HEALTH).replace("Degraded", "Healthy", 1))
    assert codes(here) == {("TW503", HEALTH)}
    here.path(HEALTH).unlink()
    assert codes(here) == {("TW504", HEALTH)}
    here.git("checkout", "--", HEALTH)
    here.write("dist/_argo-cd/applications/own.yaml", "kind: Application\n")
    assert codes(here) == {("TW505", "dist/_argo-cd/applications/own.yaml")}


def test_without_the_file_argo_cd_is_told_nothing(here: Scratch) -> None:
    before = here.dist()
    here.path(FILE).unlink()
    assert ("TW502", APPLICATIONS) in codes(here)
    here.synth()
    assert here.dist().keys() == {path for path in before if not path.startswith("_argo-cd/")}
    assert codes(here) == set()
    assert here.git("status", "--porcelain", "charts/runs", "charts/lock/digits-ddp.yaml") == "", "no run moves"


def test_a_run_of_another_kind_changes_what_argo_cd_is_told(here: Scratch) -> None:
    """Retire all that Kueue admits: nothing is left to ignore."""
    for path in sorted(here.path("charts/runs").glob("*.yaml")):
        if re.search(r"^queue:", path.read_text(encoding="utf-8"), re.MULTILINE):
            path.write_text(path.read_text(encoding="utf-8") + "state: done\n", encoding="utf-8")
    assert "ignoreDifferences" in here.read(APPLICATIONS)
    here.synth()
    assert "ignoreDifferences" not in here.read(APPLICATIONS)
    assert codes(here) == set()


@pytest.mark.parametrize(("before", "after", "said"), [
    ("repository:", "repo:", "repository"),
    ("laptop:", "labtop:", "TW110"),
    ("https://git.example.com/ml/training.git", "a url with blanks", "repository"),
])
def test_a_mistake_is_told_on_its_line_and_nothing_is_written(before: str, after: str, said: str, here: Scratch) -> None:
    here.edit(FILE, before, after)
    files = here.dist()
    for options in ([], ["--keep-going"]):
        assert_ended(here.run("synth", *options), 1, FILE, said)
        assert here.dist() == files


def test_a_file_of_another_suffix_is_not_passed_over(here: Scratch) -> None:
    here.path(FILE).rename(here.path("charts/gitops.yml"))
    files = here.dist()
    assert_ended(here.run("synth", "--keep-going"), 1, "charts/gitops.yml is not read", "rename it to gitops.yaml")
    assert here.dist() == files


def test_a_line_says_where_it_is_from(here: Scratch) -> None:
    number = next(n for n, line in enumerate(here.read(APPLICATIONS).splitlines(), 1) if "repoURL" in line)
    said = here.run("explain", f"{APPLICATIONS}:{number}")
    assert_ended(said, 0)
    assert f"{FILE}:2" in said.stdout
