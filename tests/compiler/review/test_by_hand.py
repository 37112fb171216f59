"""What a review says of files in ``dist/`` that no `synth` wrote, took away or changed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.compiler.projects import ROOT

from trainwright.project.record import digest
from trainwright.review import Class, Review, SharedReview, Side, folder_side, review
from trainwright.review.side import mark

RUN = "llama-1b-ddp"
FILE = f"dist/h100-ib/training/runs/{RUN}.k8s.yaml"
FOUNDATION = "dist/h100-ib/training/foundation/training.k8s.yaml"
POD = b"apiVersion: v1\nkind: Pod\nmetadata: {name: evil, namespace: training}\n"


@pytest.fixture(scope="module")
def base() -> Side:
    return folder_side(ROOT, "the base")


def changed(base: Side, files: Mapping[str, bytes | None]) -> Side:
    """A side with other contents of some files; None where they are gone."""
    contents = {path: data for path, data in {**base.read(base.marks), **files}.items() if data is not None}
    return Side("the head", {path: mark(data) for path, data in contents.items()}, ROOT, None, contents)


def only(found: Review) -> SharedReview:
    (shared,) = found.shared
    return shared


def test_a_run_whose_file_is_gone_is_retired_though_its_record_has_it(base: Side) -> None:
    head = changed(base, {FILE: None})
    found = review(base, head)
    assert [(run.run, run.change) for run in found.runs] == [(RUN, Class.RETIRED)]
    assert "is stopped" in found.runs[0].outcome
    assert (only(found).title, only(found).runs) == (f"{FILE}, removed by hand", (RUN,))
    back = review(head, base)
    assert [(run.run, run.change) for run in back.runs] == [(RUN, Class.NEW)]
    assert only(back).title == f"{FILE}, put right: it was removed by hand"


@pytest.mark.parametrize("name", ["evil.k8s.yaml", "evil.yml", "evil.json", f"below/{RUN}.k8s.yaml"])
def test_a_file_without_a_record_is_said_with_its_objects(base: Side, name: str) -> None:
    path = f"dist/h100-ib/training/runs/{name}"
    head = changed(base, {path: POD})
    found = review(base, head)
    assert found.runs == ()
    assert only(found).title == f"{path}, there without a record"
    assert [(one.object, one.before) for one in only(found).fields] == [("Pod evil", None)]
    assert "Argo CD applies" in only(found).effect
    (gone,) = review(head, base).shared
    assert [(one.object, one.after) for one in gone.fields] == [("Pod evil", None)]


def test_a_record_that_is_gone_leaves_a_file_without_one(base: Side) -> None:
    found = review(base, changed(base, {f"charts/lock/{RUN}.yaml": None}))
    assert f"{FILE}, there without a record" in [one.title for one in found.shared]


def test_a_foundation_whose_file_is_gone_puts_data_at_risk(base: Side) -> None:
    found = review(base, changed(base, {FOUNDATION: None}))
    assert {run.change for run in found.runs} == {Class.DATA_AT_RISK}
    assert RUN in [run.run for run in found.runs]
    risky, removed = found.shared
    assert "training-checkpoints is no longer described here" in risky.risk
    assert removed.title == f"{FOUNDATION}, removed by hand"


def test_a_run_that_changes_may_be_edited_by_hand_as_well(base: Side) -> None:
    record = f"charts/lock/{RUN}.yaml"
    texts = base.read([record, FILE])
    identity = texts[record].replace(b"3.0e-4", b"2.0e-4")
    found = review(base, changed(base, {record: identity, FILE: texts[FILE].replace(b"completions: 4", b"completions: 5")}))
    assert [run.run for run in found.runs] == [RUN]
    assert [one.path for one in found.runs[0].fields] == ["spec.completions"]
    assert f"{FILE}, edited by hand" in [one.title for one in found.shared]


def test_a_record_that_goes_along_with_an_edit_by_hand_hides_nothing(base: Side) -> None:
    record = f"charts/lock/{RUN}.yaml"
    texts = base.read([record, FILE])
    edited = texts[FILE].replace(b"completions: 4", b"completions: 5")
    known = texts[record].replace(digest(texts[FILE]).encode(), digest(edited).encode())
    found = review(base, changed(base, {record: known, FILE: edited}))
    (run,) = found.runs
    assert [(one.path, one.before, one.after) for one in run.fields] == [("spec.completions", "4", "5")]
    assert "is not known: its file in dist/ is edited by hand" in run.outcome
    titles = [one.title for one in found.shared]
    assert f"{FILE}, edited by hand, together with its record" in titles
    assert not [title for title in titles if "comments and records alone" in title]


def test_an_edit_by_hand_that_is_taken_back_is_said(base: Side) -> None:
    head = changed(base, {FILE: base.read([FILE])[FILE].replace(b"completions: 4", b"completions: 5")})
    assert only(review(base, head)).title == f"{FILE}, edited by hand"
    back = only(review(head, base))
    assert back.title == f"{FILE}, put right: it was edited by hand"
    assert [(one.path, one.before, one.after) for one in back.fields] == [("spec.completions", "5", "4")]


def test_a_folder_and_a_revision_have_every_file_that_argo_cd_applies(tmp_path: Path) -> None:
    from tests.compiler.projects import Scratch

    from trainwright.review import git_side

    here = Scratch(tmp_path)
    names = {f"dist/lab/training/runs/one.{end}" for end in ("yaml", "yml", "json", "jsonnet")}
    for name in (*names, "charts/lock/one.yaml", "dist/lab/training/runs/README.md", "dist/lab/training/runs/.gitkeep"):
        here.write(name, "{}\n")
    here.git("init", "--quiet")
    here.git("add", "--all")
    here.git("commit", "--quiet", "--message", "as written")
    for side in (folder_side(tmp_path, "here"), git_side(tmp_path, "HEAD")):
        assert set(side.marks) == {*names, "charts/lock/one.yaml"}
