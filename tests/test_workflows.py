"""Workflows that we ship, and our own: valid by their schemas, and without the mistakes that let strangers in.

They run at GitHub and GitLab only. The steps of a new project's workflow also run in ``tests/compiler/cli/test_new.py``.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.pages import ROOT

from trainwright.review.markdown import MARKER

BIN = Path(sys.executable).parent
STARTER = ROOT / "constructs" / "trainwright" / "starter" / "project"
WORKFLOWS = [*sorted((ROOT / ".github" / "workflows").glob("*.yml")), STARTER / "workflow.yaml", STARTER / "review.yaml"]
FORMS = [path for path in sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")) if path.name != "config.yml"]


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(part) for part in command], cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("schema", "files"), [
    ("vendor.github-workflows", WORKFLOWS),
    ("vendor.gitlab-ci", [ROOT / "docs" / "examples" / "review.gitlab-ci.yml"]),
    ("vendor.github-issue-forms", FORMS),
    ("vendor.github-issue-config", [ROOT / ".github" / "ISSUE_TEMPLATE" / "config.yml"]),
])
def test_they_are_valid_by_their_schema(schema: str, files: list[Path]) -> None:
    ended = run(BIN / "check-jsonschema", "--builtin-schema", schema, *files)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_a_schema_finds_a_mistake(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yml"
    wrong.write_text((ROOT / ".github" / "workflows" / "release.yml").read_text().replace("runs-on:", "run-on:"))
    assert run(BIN / "check-jsonschema", "--builtin-schema", "vendor.github-workflows", wrong).returncode == 1


def test_nothing_in_them_lets_a_stranger_in(tmp_path: Path) -> None:
    here = tmp_path / ".github"
    shutil.copytree(ROOT / ".github", here)
    for path in WORKFLOWS:
        shutil.copy(path, here / "workflows" / f"{path.stem}.yml")
    ended = run(BIN / "zizmor", "--offline", "--no-progress", here)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    release = here / "workflows" / "release.yml"
    release.write_text(release.read_text().replace('"$GITHUB_REF_NAME" > notes.md', "${{ github.ref_name }} > notes.md"))
    ended = run(BIN / "zizmor", "--offline", "--no-progress", here)
    assert "template-injection" in ended.stdout, "it must be able to find one"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_shell_reads_their_steps(path: Path) -> None:
    jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values()
    steps = [step["run"] for job in jobs for step in job["steps"] if "run" in step]
    assert steps
    for step in steps:
        ended = subprocess.run(["bash", "-n"], input=step, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr


COMMENTS = [
    {"id": 5, "user": {"login": "github-actions[bot]"}, "body": "Coverage: 97 %"},
    {"id": 6, "user": {"login": "somebody"}, "body": f"I quote\n{MARKER}"},
    {"id": 7, "user": {"login": "github-actions[bot]"}, "body": f"{MARKER}\nof before"},
]
GH = """#!/bin/sh
echo "$@" >> "$CALLS"
for last; do :; done
case "$*" in *--paginate*) exec jq --raw-output "$last" "$COMMENTS";; esac
"""
CURL = """#!/bin/sh
echo "$@" >> "$CALLS"
case "$*" in *sort=asc*) exec cat "$COMMENTS";; esac
"""


def _comment_of_github() -> str:
    (job,) = yaml.safe_load((STARTER / "review.yaml").read_text(encoding="utf-8"))["jobs"].values()
    return next(str(step["run"]) for step in job["steps"] if step.get("name") == "Comment")


def _comment_of_gitlab() -> str:
    job = yaml.safe_load((ROOT / "docs" / "examples" / "review.gitlab-ci.yml").read_text(encoding="utf-8"))["review"]
    return next(str(step) for step in job["script"] if "curl" in step)


NOTES = "api/projects/1/merge_requests/3/notes"


@pytest.mark.parametrize(("command", "tool", "step", "edits", "makes"), [
    pytest.param(
        "gh", GH, _comment_of_github(), "PATCH repos/o/r/issues/comments/7 ", "POST repos/o/r/issues/3/comments ",
        marks=pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed"),
    ),
    ("curl", CURL, _comment_of_gitlab(), f"PUT --form body=<review.md {NOTES}/7", f"POST --form body=<review.md {NOTES}"),
], ids=["github", "gitlab"])  # fmt: skip
@pytest.mark.parametrize("there", [True, False], ids=["again", "first"])
def test_a_review_is_one_comment(
    command: str, tool: str, step: str, edits: str, makes: str, there: bool, tmp_path: Path
) -> None:
    (tmp_path / command).write_text(tool)
    (tmp_path / command).chmod(0o755)
    (tmp_path / "comments.json").write_text(json.dumps(COMMENTS if there else COMMENTS[:2]))
    (tmp_path / "review.md").write_text(f"{MARKER}\n## Trainwright: nothing\n")
    environment = {
        "PATH": f"{tmp_path}:{BIN}:{os.environ['PATH']}", "CALLS": str(tmp_path / "calls"),
        "COMMENTS": str(tmp_path / "comments.json"), "GITHUB_REPOSITORY": "o/r", "NUMBER": "3", "REVIEW_TOKEN": "t",
        "CI_API_V4_URL": "api", "CI_PROJECT_ID": "1", "CI_MERGE_REQUEST_IID": "3",
    }
    subprocess.run(["bash", "-ec", step], cwd=tmp_path, env=environment, check=True)
    _, written = (tmp_path / "calls").read_text(encoding="utf-8").splitlines()
    assert (edits if there else makes) in written


def test_a_release_builds_the_image_of_every_family() -> None:
    release = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8"))
    families = {path.name.partition(".")[0] for path in (ROOT / "trainer" / "images").glob("*.Dockerfile")}
    assert set(release["jobs"]["images"]["strategy"]["matrix"]["family"]) == families


# What a tag must agree with.


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of what `tools/release.py` reads, as it would be for 0.3.0."""
    for name in ("pyproject.toml", "trainer/pyproject.toml", "tools/release.py", "CHANGELOG.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        text = (ROOT / name).read_text(encoding="utf-8").replace("0.2.0.dev0", "0.3.0")
        text = re.sub(r"^## 0\.2\.0, .*$", "## 0.3.0, 2026-12-01", text, flags=re.MULTILINE)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def released(project: Path, tag: str) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, project / "tools" / "release.py", tag)


def test_a_tag_prints_its_notes(project: Path) -> None:
    ended = released(project, "v0.3.0")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("The first release")


def test_a_tag_that_disagrees_is_no_release(project: Path) -> None:
    ended = released(project, "v0.4.0")
    assert (ended.returncode, "pyproject.toml says 0.3.0, and the tag v0.4.0" in ended.stderr) == (1, True)
    (project / "trainer" / "pyproject.toml").write_text('[project]\nversion = "0.2.9"\ndependencies = []\n')
    assert "trainer/pyproject.toml says 0.2.9" in released(project, "v0.3.0").stderr


def test_without_a_section_in_the_changelog_there_is_no_release() -> None:
    ended = run(sys.executable, "tools/release.py", "v0.2.0.dev0")
    assert (ended.returncode, "has no section `## 0.2.0.dev0, YYYY-MM-DD`" in ended.stderr) == (1, True)
