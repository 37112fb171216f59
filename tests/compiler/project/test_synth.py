"""A project on disk: synth, check and roll, on copies of this repository's own charts."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.compiler.compiling import TODAY
from tests.compiler.projects import ROOT, Scratch, files, scratch

from trainwright.findings import CompileError, Finding, Severity
from trainwright.project.build import build_project
from trainwright.project.built import Output
from trainwright.project.clashes import duplicates
from trainwright.project.load import load_sources
from trainwright.project.record import digest
from trainwright.project.scope import obstacles
from trainwright.project.status import compare, last_records
from trainwright.project.synth import synth
from trainwright.report.header import split_header

DIGITS = "charts/runs/digits-ddp.yaml"
RECORD = "charts/lock/digits-ddp.yaml"
DIGITS_DIST = "dist/laptop/training/runs/digits-ddp.k8s.yaml"
H100 = "charts/clusters/h100-ib.yaml"


@pytest.fixture
def here(tmp_path: Path) -> Scratch:
    return scratch(tmp_path / "project")


def findings(here: Scratch) -> list[Finding]:
    """What `check` finds, without starting a process."""
    records = last_records(here.project)
    build = build_project(load_sources(here.project), TODAY)
    found = [*build.findings, *obstacles(here.project, build, records).all, *compare(here.project, build, records)]
    return list(dict.fromkeys(found))


def errors(here: Scratch) -> list[tuple[str, str]]:
    """Code and message of each error."""
    return [(finding.code, finding.message) for finding in findings(here) if finding.severity is Severity.ERROR]


def codes(here: Scratch) -> list[str]:
    return [code for code, _ in errors(here)]


# In order.


def test_what_is_committed_is_in_order(here: Scratch) -> None:
    ended = here.run("check")
    assert ended.returncode == 0, ended.stderr
    assert here.git("status", "--porcelain") == ""


def test_synth_writes_nothing_where_nothing_changed(here: Scratch) -> None:
    before = {path: path.stat().st_mtime_ns for path in (here.root / "dist").rglob("*.yaml")}
    ended = here.run("synth")
    assert ended.returncode == 0, ended.stderr
    assert here.git("status", "--porcelain") == ""
    assert {path: path.stat().st_mtime_ns for path in (here.root / "dist").rglob("*.yaml")} == before
    assert ended.stdout == "nothing changed: 28 runs are as in dist/\n"


def test_synth_from_nothing_gives_the_committed_bytes(here: Scratch) -> None:
    committed = here.dist()
    shutil.rmtree(here.root / "dist")
    shutil.rmtree(here.project.records)
    here.synth()
    assert here.dist() == committed
    assert here.git("status", "--porcelain") == ""
    assert sorted(path.name for path in here.root.iterdir()) == [".git", "charts", "dist"]


# Edited by hand, missing, stale, foreign.


@pytest.mark.parametrize("path", sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "dist").rglob("*.yaml")))
def test_one_character_edited_by_hand_is_named_with_the_file_to_change(here: Scratch, path: str) -> None:
    text = here.read(path)
    middle = len(text) // 2
    here.write(path, text[:middle] + ("x" if text[middle] != "x" else "y") + text[middle + 1:])
    (found,) = [finding for finding in findings(here) if finding.severity is Severity.ERROR]
    assert found.code == "TW503"
    assert found.where.file == path
    assert _source(path) in found.fix


def _source(path: str) -> str:
    """The file that a person edits to change a file of dist/."""
    cluster, *_, kind, name = path.removeprefix("dist/").split("/")
    if cluster == "_argo-cd":
        return "charts/gitops.yaml"
    if kind == "foundation":
        return f"charts/clusters/{cluster}.yaml"
    stem = name.removesuffix(".k8s.yaml")
    return "charts/runs/torchrun_command.py" if stem == "torchrun-command" else f"charts/runs/{stem}.yaml"


def test_check_exits_1_for_an_edit_by_hand_and_synth_takes_it_back(here: Scratch) -> None:
    here.edit(DIGITS_DIST, "completions: 2", "completions: 3")
    ended = here.run("check")
    assert ended.returncode == 1
    assert DIGITS_DIST in ended.stderr
    assert DIGITS in ended.stderr
    written = here.synth()
    assert written.restored == (DIGITS_DIST,)
    assert here.git("status", "--porcelain") == ""


def test_a_missing_file_is_named_and_written_again(here: Scratch) -> None:
    here.path(DIGITS_DIST).unlink()
    assert errors(here) == [("TW504", f"{DIGITS_DIST} is missing")]
    here.synth()
    assert here.git("status", "--porcelain") == ""


def test_files_that_an_older_release_wrote_without_comments_are_stale_and_not_called_edited(here: Scratch) -> None:
    committed = here.dist()
    for path in (DIGITS_DIST, "dist/laptop/training/foundation/training.k8s.yaml"):
        text = here.read(path)
        header, below = split_header(text)
        assert header
        here.write(path, below)
        for record in here.project.records.rglob("*.yaml"):
            record.write_text(record.read_text().replace(digest(text.encode()), digest(below.encode())))
    assert {code for code, _ in errors(here)} == {"TW502"}
    assert len(errors(here)) == 2
    assert here.synth().restored == ()
    assert here.dist() == committed
    assert here.git("status", "--porcelain") == ""


def test_a_default_that_is_stated_changes_comments_and_no_object(here: Scratch) -> None:
    before = here.read(DIGITS_DIST)
    here.edit(DIGITS, "{every_steps: 100}", "{every_steps: 100, resume: auto}")
    here.synth()
    after = here.read(DIGITS_DIST)
    assert split_header(after)[1] == split_header(before)[1]
    assert [line for line in after.splitlines() if line not in before.splitlines()] == ["# checkpoints resume: auto"]


def test_an_edited_run_is_stale_until_synth(here: Scratch) -> None:
    here.edit(DIGITS, "base: 2e-3", "base: 3e-3")
    assert codes(here) == ["TW502"]
    written = here.synth()
    assert written.changed == (DIGITS_DIST,)
    assert written.restored == ()
    assert codes(here) == []
    assert sorted(here.git("diff", "--name-only").split()) == [RECORD, DIGITS, DIGITS_DIST]


def test_an_edit_of_a_comment_is_stale_until_synth_and_changes_its_record_alone(here: Scratch) -> None:
    here.write(DIGITS, "# reviewed\n" + here.read(DIGITS))
    assert codes(here) == ["TW502"]
    assert here.synth().changed == ()
    assert sorted(here.git("diff", "--name-only").split()) == [RECORD, DIGITS]
    assert codes(here) == []


def test_a_label_changes_the_file_and_no_name(here: Scratch) -> None:
    before = here.build().runs["digits-ddp"].compiled.plan.name
    here.write(DIGITS, here.read(DIGITS) + "labels: {example.com/note: edited}\n")
    assert codes(here) == ["TW502"]
    here.synth()
    assert "example.com/note: edited" in here.read(DIGITS_DIST)
    assert f"name: {before}" in here.read(DIGITS_DIST)


def test_a_learning_rate_moves_exactly_one_name(here: Scratch) -> None:
    before = {name: built.compiled.identity for name, built in here.build().runs.items()}
    here.edit(DIGITS, "base: 2e-3", "base: 3e-3")
    after = {name: built.compiled.identity for name, built in here.build().runs.items()}
    assert [name for name in before if before[name] != after[name]] == ["digits-ddp"]


def test_a_foreign_file_stays_and_is_reported(here: Scratch) -> None:
    here.write("dist/laptop/training/runs/mine.yaml", "kind: ConfigMap\n")
    here.write("dist/laptop/training/runs/other.k8s.yaml", "kind: ConfigMap\n")
    here.write("dist/README.md", "read me\n")
    reported = [finding for finding in findings(here) if finding.code == "TW505"]
    assert [finding.where.file for finding in reported] == [
        "dist/README.md", "dist/laptop/training/runs/mine.yaml", "dist/laptop/training/runs/other.k8s.yaml",
    ]
    assert codes(here) == []
    assert here.run("check").returncode == 0
    written = here.synth()
    assert len(written.foreign) == 3
    assert here.read("dist/README.md") == "read me\n"
    assert here.path("dist/laptop/training/runs/other.k8s.yaml").is_file()


@pytest.mark.parametrize("linked", ["dist", "dist/laptop", "dist/laptop/training/runs", DIGITS_DIST])
def test_a_link_in_dist_is_reported_and_nothing_is_written_through_it(here: Scratch, linked: str) -> None:
    outside = here.root.parent / "outside"
    here.path(linked).rename(outside)
    here.path(linked).symlink_to(outside)
    before = {path: path.read_bytes() for path in (outside, *outside.rglob("*")) if path.is_file()}
    here.edit(DIGITS, "base: 2e-3", "base: 3e-3")
    (found,) = [finding for finding in findings(here) if finding.code == "TW515"]
    assert found.where.file == linked
    with pytest.raises(CompileError, match="TW515"):
        here.synth()
    assert {path: path.read_bytes() for path in (outside, *outside.rglob("*")) if path.is_file()} == before


# What is written is what was compiled.

PROMPT = r"You are a helpful assistant that answers questions.\n \nAnswer in one word.\n  "


@pytest.mark.parametrize(
    ("stated", "line"),
    [
        (f'env:\n  LANG: C\n  PROMPT: "{PROMPT}"\n', 23),
        (f'files:\n  /etc/a.txt: a\n  /etc/prompt.txt: "{PROMPT}"\n', 23),
        (f'overrides:\n  pod:\n    node:\n      hostname: "{PROMPT}"\n', 24),
    ],
)
def test_text_that_cdk8s_would_damage_is_refused_on_its_line(here: Scratch, stated: str, line: int) -> None:
    here.write(DIGITS, here.read(DIGITS) + stated)
    (found,) = [finding for finding in findings(here) if "cdk8s" in finding.message]
    assert (found.where.file, found.where.line) == (DIGITS, line)
    assert "remove the blanks of empty lines" in found.message


def test_what_reads_back_as_something_else_is_not_moved_into_dist(here: Scratch) -> None:
    from trainwright.cdk8s import write_files

    def write(files: Mapping[str, Sequence[Mapping[str, Any]]], folder: Path) -> None:
        write_files(files, folder)
        path = folder / DIGITS_DIST.removeprefix("dist/")
        path.write_text(path.read_text().replace("value: info", "value: off"))

    here.write(DIGITS, here.read(DIGITS) + "env:\n  LANG: C\n  LOG: info\n")
    with pytest.raises(CompileError) as refused:
        synth(here.project, here.build(), write)
    (found,) = refused.value.findings
    assert (found.code, found.where.file, found.where.line) == ("TW516", DIGITS, 23)
    assert here.git("status", "--porcelain") == f" M {DIGITS}\n"


# The life of a run.


def test_a_removed_run_loses_its_file_and_its_record(here: Scratch) -> None:
    here.path(DIGITS).unlink()
    assert set(codes(here)) == {"TW502"}
    assert any("digits-ddp" in message for _, message in errors(here))
    written = here.synth()
    assert written.removed == (DIGITS_DIST,)
    assert not here.path(DIGITS_DIST).exists()
    assert not here.path(RECORD).exists()
    assert codes(here) == []
    assert here.path("dist/laptop/training/foundation/training.k8s.yaml").is_file()


OF_THE_LAPTOP = ("digits-ddp", "shell-script", "stdlib-lm")


def test_the_last_run_of_a_namespace_leaves_the_foundation(here: Scratch) -> None:
    for run in OF_THE_LAPTOP:
        here.path(f"charts/runs/{run}.yaml").unlink()
    here.synth()
    assert [path for path in here.dist() if path.startswith("laptop/")] == [
        "laptop/training/foundation/training.k8s.yaml", "laptop/training/runs/.gitkeep",
    ]  # fmt: skip


@pytest.mark.parametrize("retire", ["done", "removed"])
@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "one after the other"])
def test_the_last_run_of_a_namespace_leaves_its_folder_in_git(here: Scratch, retire: str, at_once: bool) -> None:
    """Argo CD cannot sync a path that is gone, and then removes nothing: the run would go on training."""
    for run in OF_THE_LAPTOP:
        path = f"charts/runs/{run}.yaml"
        if retire == "done":
            here.write(path, here.read(path) + "state: done\n")
        else:
            here.path(path).unlink()
        if not at_once:
            here.synth()
    here.synth()
    assert codes(here) == []
    here.git("add", "--all")
    tracked = [path for path in here.git("ls-files", "dist/laptop").splitlines() if "/runs/" in path]
    assert tracked == ["dist/laptop/training/runs/.gitkeep"]
    shutil.rmtree(here.path("dist/laptop/training/runs"))  # as where two branches retire a run each, and are merged
    assert codes(here) == ["TW504"]
    assert "would go on training" in errors(here)[0][1]
    here.synth()
    assert codes(here) == []


def test_a_run_that_comes_after_the_last_one_takes_the_place_of_the_file(here: Scratch) -> None:
    texts = {run: here.read(f"charts/runs/{run}.yaml") for run in OF_THE_LAPTOP}
    for run, text in texts.items():
        here.write(f"charts/runs/{run}.yaml", text + "state: done\n")
    here.synth()
    here.write(DIGITS, texts["digits-ddp"] + "attempt: 2\n")
    assert here.synth().foreign == ()
    assert list(here.path(DIGITS_DIST).parent.iterdir()) == [here.path(DIGITS_DIST)]
    assert codes(here) == []


def test_a_run_that_is_done_is_not_emitted_and_keeps_its_record(here: Scratch) -> None:
    before = here.build().runs["digits-ddp"].compiled.identity
    here.write(DIGITS, here.read(DIGITS) + "state: done\n")
    assert codes(here) == ["TW502", "TW502"]
    here.synth()
    assert not here.path(DIGITS_DIST).exists()
    record = last_records(here.project).runs["digits-ddp"]
    assert record.state == "done"
    assert record.identity == before
    assert codes(here) == []


def test_a_new_run_is_reported_and_then_written(here: Scratch) -> None:
    here.write("charts/runs/again.yaml", here.read(DIGITS).replace("run: digits-ddp", "run: again"))
    assert errors(here) == [("TW502", "run again is new and not in dist/ yet")]
    assert here.synth().changed == ("dist/laptop/training/runs/again.k8s.yaml",)
    assert codes(here) == []


# All or nothing.


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("micro: 32", "micro: 0"),
        ("digits-ddp", "digits"),
        ("epochs: 30", "epochs: ["),
        ("claim: training-checkpoints", "claim: none"),
    ],
)
def test_a_failing_compile_leaves_dist_and_records_as_they_are(here: Scratch, before: str, after: str) -> None:
    dist, records = here.dist(), files(here.project.records)
    here.write("charts/runs/again.yaml", here.read(DIGITS).replace("run: digits-ddp", "run: again"))
    here.edit("charts/runs/own-script.yaml", "gpus_per_node: 8", "gpus_per_node: 4")
    here.write(DIGITS, here.read(DIGITS).replace(before, after))
    with pytest.raises(CompileError):
        here.synth()
    assert here.dist() == dist
    assert files(here.project.records) == records
    assert [path.name for path in here.root.iterdir() if path.name.startswith(".dist")] == []


def test_a_run_that_does_not_compile_is_not_called_gone(here: Scratch) -> None:
    here.edit(DIGITS, "micro: 32", "micro: 0")
    assert codes(here) == ["TW107"]


def test_a_writer_that_fails_half_way_leaves_dist_and_records_as_they_are(here: Scratch) -> None:
    from trainwright.project.synth import synth

    def broken(outputs: object, folder: Path) -> None:
        (folder / "half").write_text("written", encoding="utf-8")
        raise OSError("disk full")

    dist, records = here.dist(), files(here.project.records)
    here.edit(DIGITS, "base: 2e-3", "base: 3e-3")
    with pytest.raises(OSError, match="disk full"):
        synth(here.project, here.build(), broken)
    assert here.dist() == dist
    assert files(here.project.records) == records
    assert sorted(path.name for path in here.root.iterdir()) == [".git", "charts", "dist"]


def test_only_what_changed_is_written(here: Scratch) -> None:
    """Whatever starts Node is called for these files alone, and not at all where nothing changed."""
    from trainwright.cdk8s import write_files

    calls: list[list[str]] = []

    def noted(outputs: Mapping[str, Sequence[Mapping[str, Any]]], folder: Path) -> None:
        calls.append(sorted(outputs))
        write_files(outputs, folder)

    synth(here.project, here.build(), noted)
    assert calls == []
    own, touched = "laptop/training/runs/digits-ddp.k8s.yaml", "h100-ib/training/runs/own-script.k8s.yaml"
    here.edit(DIGITS, "base: 2e-3", "base: 3e-3")
    here.write(f"dist/{touched}", here.read(f"dist/{touched}") + "# by hand\n")
    assert synth(here.project, here.build(), noted).restored == (f"dist/{touched}",)
    assert calls == [[touched, own]]
    (here.root / "dist" / own).unlink()
    record = here.read("charts/lock/own-script.yaml")
    here.write("charts/lock/own-script.yaml", record.replace('jsii: "', 'jsii: "0.'))
    synth(here.project, here.build(), noted)
    assert calls[1:] == [[touched, own]]
    assert here.read("charts/lock/own-script.yaml") == record


# Profiles: what restarts runs must be said.


def restart_all(here: Scratch) -> list[str]:
    """Edit the profile so that every run of it restarts: their names."""
    here.edit(H100, "interface: eth0\n      hca", "interface: bond0\n      hca")
    here.edit(H100, "gigabits_per_link: 200, interface: eth0", "gigabits_per_link: 200, interface: bond0")
    return of_h100(here)


def of_h100(here: Scratch) -> list[str]:
    return [name for name, built in here.build().runs.items() if built.compiled.cluster.cluster == "h100-ib"]


def test_a_profile_edit_that_would_restart_runs_lists_them_all_until_they_are_rolled(here: Scratch) -> None:
    restarted = restart_all(here)
    dist = here.dist()
    ended = here.run("synth")
    assert ended.returncode == 1
    assert here.dist() == dist
    assert ended.stderr.count("TW501") == 2, "once for each cause: pools differ in what was edited"
    assert all(f" {name} (" in ended.stderr for name in restarted)
    commands = re.findall(r"`trainwright roll ([^`]*)`", ended.stderr)
    assert len(commands) == 2, "a command for each cause, which can be copied"
    assert sorted(" ".join(commands).split()) == sorted(restarted)
    assert " digits-ddp (" not in ended.stderr
    assert here.run("check").returncode == 1

    with pytest.raises(CompileError) as caught:
        here.synth("own-script")
    said = " ".join(finding.message for finding in caught.value.findings if finding.severity is Severity.ERROR)
    assert [name for name in restarted if f" {name} (" in said] == [name for name in restarted if name != "own-script"]
    assert here.dist() == dist

    ended = here.run("roll", *restarted, "digits-ddp")
    assert ended.returncode == 0, ended.stderr
    assert [line.split(":")[0] for line in ended.stdout.splitlines()] == [*restarted, "profile h100-ib"]
    assert all("new run" in line and "replaces" in line for line in ended.stdout.splitlines()[:-1])
    assert codes(here) == []
    assert "bond0" in here.read("dist/h100-ib/training/runs/own-script.k8s.yaml")


def test_lost_records_are_no_way_round_roll(here: Scratch) -> None:
    restarted = restart_all(here)
    shutil.rmtree(here.project.records)
    dist = here.dist()
    for command in ("check", "synth"):
        ended = here.run(command)
        assert ended.returncode == 1
        for name in restarted:
            assert f"error TW508 {name} has no record, and dist/h100-ib/training/runs/{name}.k8s.yaml has" in ended.stderr
            assert f"`trainwright roll {name}`" in ended.stderr
        assert "digits-ddp has no record, and" not in ended.stderr
    assert here.dist() == dist
    shutil.rmtree(here.path("dist"))
    here.synth()
    assert codes(here) == []


def test_a_profile_edit_that_restarts_nothing_needs_no_roll(here: Scratch) -> None:
    here.edit(H100, "size: 4Ti", "size: 5Ti")
    assert codes(here) == ["TW502", "TW502"], "the foundation, and the record of the profile"
    assert here.synth().changed == ("dist/h100-ib/training/foundation/training.k8s.yaml",)


def test_a_run_that_says_so_itself_restarts_without_roll(here: Scratch) -> None:
    here.write(DIGITS, here.read(DIGITS) + "attempt: 2\n")
    before = last_records(here.project).runs["digits-ddp"].identity
    here.synth()
    assert last_records(here.project).runs["digits-ddp"].identity != before


def test_a_run_that_is_done_restarts_with_no_profile(here: Scratch) -> None:
    for run in of_h100(here):
        if run != "torchrun-command":
            here.write(f"charts/runs/{run}.yaml", here.read(f"charts/runs/{run}.yaml") + "state: done\n")
    here.edit("charts/runs/torchrun_command.py", 'node_pool="h100-spot",', 'node_pool="h100-spot",\n    state="done",')
    here.synth()
    restart_all(here)
    assert errors(here) == [("TW502", "profile h100-ib changed since dist/ was written")]
    here.synth()
    assert codes(here) == []


def test_a_profile_that_was_never_written_is_called_new(here: Scratch) -> None:
    here.synth()
    for record in here.project.records.rglob("*.yaml"):
        if "profile:" in record.read_text(encoding="utf-8"):
            record.unlink()
    assert ("TW502", "profile h100-ib is new, and dist/ was not written since") in errors(here)


# One object, one file.


def test_two_files_for_one_run_are_refused(here: Scratch) -> None:
    here.write("charts/runs/digits_ddp.py", "from trainwright import load_run\nRUN = load_run('charts/runs/digits-ddp.yaml')\n")
    ended = here.run("check")
    assert ended.returncode == 1
    assert "TW109" in ended.stderr


def test_an_object_that_two_files_make_is_refused() -> None:
    def output(path: str, change: str, name: str = "same", kind: str = "Job", group: str = "batch/v1") -> Output:
        manifest = {"apiVersion": group, "kind": kind, "metadata": {"name": name, "namespace": "n"}}
        return Output(path, (manifest,), lambda: ({},), change)

    first, second = output("c/n/runs/a.k8s.yaml", "charts/runs/a.yaml"), output("c/n/runs/b.k8s.yaml", "charts/runs/b.yaml")
    (found,) = [clash.finding for clash in duplicates([first, second])]
    assert found.code == "TW507"
    assert found.where.file == "charts/runs/b.yaml"
    assert "charts/runs/a.yaml" in found.message
    assert duplicates([first, output("another/n/runs/a.k8s.yaml", "x")]) == []
    assert duplicates([first, output("c/n/runs/b.k8s.yaml", "x", name="other")]) == []
    assert duplicates([first, output("c/n/runs/b.k8s.yaml", "x", kind="CronJob")]) == []
    assert len(duplicates([first, output("c/n/runs/b.k8s.yaml", "x", group="batch/v2")])) == 1, (
        "versions of one group are one object"
    )
