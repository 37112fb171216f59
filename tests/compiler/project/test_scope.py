"""One run does not hold the others up: some runs are written, and the bytes of the others stay."""

from __future__ import annotations

import re
import shutil

import pytest
from tests.compiler.projects import Scratch, assert_ended, files

from trainwright.project.status import last_records

DIGITS, STDLIB = "charts/runs/digits-ddp.yaml", "charts/runs/stdlib-lm.yaml"
FOUNDATION = "dist/trainer-h100/research/foundation/research.k8s.yaml"


def changed(few: Scratch) -> list[str]:
    """Files that git sees as changed, without the runs and profiles that a test edits."""
    paths = (line[3:] for line in few.git("status", "--porcelain", "--untracked-files=all").splitlines())
    return sorted(path for path in paths if not path.startswith(("charts/runs", "charts/clusters")))


def written(run: str) -> list[str]:
    return [f"charts/lock/{run}.yaml", f"dist/laptop/training/runs/{run}.k8s.yaml"]


def move_laptop(few: Scratch) -> None:
    """Edit the profile so that its runs would restart."""
    few.edit("charts/clusters/laptop.yaml", "    memory: 16Gi\n", "    memory: 16Gi\n    labels: {pool: new}\n")


# Some runs.


def test_a_run_is_written_though_another_does_not_compile(few: Scratch) -> None:
    few.edit(DIGITS, "base: 2e-3", "base: 3e-3")
    few.edit(STDLIB, "micro: 8", "micro: 0")
    assert_ended(few.run("synth"), 1, "TW107")
    assert changed(few) == []
    ended = few.run("synth", "digits-ddp")
    assert_ended(ended, 0)
    assert changed(few) == written("digits-ddp")
    assert_ended(few.run("check", "digits-ddp"), 0)
    assert_ended(few.run("check", "digits-ddp", "stdlib-lm"), 1, "TW107")
    assert_ended(few.run("check"), 1, "TW107")


def test_a_run_that_is_asked_for_and_does_not_compile_writes_nothing(few: Scratch) -> None:
    few.edit(DIGITS, "base: 2e-3", "base: 3e-3")
    few.edit(STDLIB, "micro: 8", "micro: 0")
    assert_ended(few.run("synth", "digits-ddp", "stdlib-lm"), 1, "TW107")
    assert_ended(few.run("synth", "stdlib-lm", "--keep-going"), 1, "TW107")
    assert_ended(few.run("synth", "digits"), 2, "did you mean digits-ddp?")
    assert_ended(few.run("check", "digits"), 2, "did you mean digits-ddp?")
    assert changed(few) == []


def test_what_is_not_asked_for_stays_as_it_is(few: Scratch) -> None:
    for file in (DIGITS, STDLIB):
        few.write(file, few.read(file) + "attempt: 2\n")
    assert_ended(few.run("synth", "stdlib-lm"), 0)
    assert changed(few) == written("stdlib-lm")
    assert_ended(few.run("check", "digits-ddp"), 1, "TW502")


def test_a_run_that_is_done_or_gone_leaves_by_its_name_alone(few: Scratch) -> None:
    few.write(DIGITS, few.read(DIGITS) + "state: done\n")
    few.path(STDLIB).unlink()
    assert_ended(few.run("synth", "digits-ddp"), 0)
    assert changed(few) == written("digits-ddp")
    assert not few.path("dist/laptop/training/runs/digits-ddp.k8s.yaml").exists()
    assert few.path("dist/laptop/training/runs/stdlib-lm.k8s.yaml").exists()


def test_the_folder_of_another_namespace_stays_in_git(few: Scratch) -> None:
    """Argo CD would not find the path of its application."""
    profile = few.read("charts/clusters/laptop.yaml")
    own = re.search(r"^  training:\n(?:    .*\n)+", profile, re.MULTILINE)
    assert own
    few.write("charts/clusters/laptop.yaml", profile.replace(own[0], own[0] + own[0].replace("  training:", "  other:")))
    few.synth()
    keeps = few.path("dist/laptop/other/runs/.gitkeep")
    assert keeps.is_file()
    first = few.read(STDLIB).replace("run: stdlib-lm", "run: first").replace("namespace: training", "namespace: other")
    few.write("charts/runs/first.yaml", first)
    few.edit(DIGITS, "base: 2e-3", "base: 3e-3")
    assert_ended(few.run("synth", "digits-ddp"), 0)
    assert keeps.is_file()
    assert_ended(few.run("synth"), 0)
    assert [path.name for path in keeps.parent.iterdir()] == ["first.k8s.yaml"]


# Keep going.


def test_what_compiles_is_written_and_what_does_not_keeps_its_bytes(few: Scratch) -> None:
    few.edit(DIGITS, "base: 2e-3", "base: 3e-3")
    few.edit(STDLIB, "micro: 8", "micro: 0")
    ended = few.run("synth", "--keep-going")
    assert_ended(ended, 1, "TW107")
    assert changed(few) == written("digits-ddp")
    assert ended.stdout.count("\n") == 1
    few.edit(STDLIB, "micro: 0", "micro: 16")
    assert_ended(few.run("synth"), 0)
    assert changed(few) == sorted((*written("digits-ddp"), *written("stdlib-lm")))
    assert_ended(few.run("check"), 0)


def test_a_profile_with_an_error_holds_its_own_runs_alone(few: Scratch) -> None:
    few.write("charts/clusters/trainer-h100.yaml", "cluster: trainer-h100\n")
    few.edit(DIGITS, "base: 2e-3", "base: 3e-3")
    assert_ended(few.run("synth", "--keep-going"), 1, "TW106")
    assert changed(few) == written("digits-ddp")
    assert_ended(few.run("check", "digits-ddp"), 0)


def test_an_expired_waiver_is_an_error_of_its_run_alone(few: Scratch) -> None:
    few.write(DIGITS, few.read(DIGITS) + "waivers: [{code: TW203, reason: measured last week, expires: 2020-01-01}]\n")
    few.edit(STDLIB, "micro: 8", "micro: 16")
    assert_ended(few.run("check", "stdlib-lm"), 1, "TW502")
    assert_ended(few.run("synth", "stdlib-lm"), 0)
    assert_ended(few.run("check", "stdlib-lm"), 0)
    assert_ended(few.run("check", "digits-ddp"), 1, "TW611")
    assert changed(few) == written("stdlib-lm")


def test_runs_that_clash_are_both_left(few: Scratch) -> None:
    for name in ("one", "two"):
        text = few.read(DIGITS).replace("run: digits-ddp", f"run: {name}")
        tool = "ab"[name == "two"] * 64
        few.write(f"charts/runs/{name}.yaml", f"{text}prepare:\n  /checkpoints/data:\n    source: s3://example-datasets/digits\n"
                   f"    image: registry.example.com/tools/rclone@sha256:{tool}\n")
    few.edit(STDLIB, "micro: 8", "micro: 16")
    assert_ended(few.run("synth", "--keep-going"), 1, "TW242")
    assert changed(few) == written("stdlib-lm")


def test_a_broken_record_holds_its_run_alone(few: Scratch) -> None:
    few.write("charts/lock/stdlib-lm.yaml", "<<<<<<< HEAD\n")
    few.edit(DIGITS, "base: 2e-3", "base: 3e-3")
    assert_ended(few.run("synth"), 1, "TW506")
    assert_ended(few.run("synth", "digits-ddp"), 0)
    assert_ended(few.run("synth", "--keep-going"), 1, "charts/lock/stdlib-lm.yaml:1:1: error TW506")
    assert few.read("charts/lock/stdlib-lm.yaml") == "<<<<<<< HEAD\n"
    assert [path for path in changed(few) if "stdlib" not in path] == written("digits-ddp")


def test_a_run_that_was_never_written_does_not_hold_the_record_of_its_profile(few: Scratch) -> None:
    text = few.read(DIGITS).replace("run: digits-ddp", "run: broken")
    few.write("charts/runs/broken.yaml", text.replace("micro: 32", "micro: 0"))
    few.edit("charts/clusters/laptop.yaml", "memory: 16Gi", "memory: 16Gi\n    labels: {example.com/pool: cpu}")
    assert_ended(few.run("synth", "--keep-going"), 1, "charts/runs/broken.yaml")
    assert "charts/lock/clusters/laptop.yaml" not in changed(few), "two runs are not as they compile"
    assert_ended(few.run("roll", "digits-ddp", "stdlib-lm"), 0)
    assert "charts/lock/clusters/laptop.yaml" in changed(few)


def test_what_moves_runs_is_not_said_to_be_another_than_the_profile_without_its_record(few: Scratch) -> None:
    few.path("charts/lock/clusters/laptop.yaml").unlink()
    few.edit("charts/clusters/laptop.yaml", "memory: 16Gi", "memory: 16Gi\n    labels: {example.com/pool: cpu}")
    said = "TW501 something else than the run's file, such as the profile laptop, which has no record yet"
    assert_ended(few.run("check"), 1, said)


def test_what_a_run_that_is_left_refers_to_stays_in_the_foundation(few: Scratch) -> None:
    before = few.read(FOUNDATION)
    few.edit("charts/runs/xgboost-trainjob.yaml", "rounds: 500", "rounds: 0")
    few.edit("charts/runs/sdk-train.yaml", "command: [python, /app/train.py]", "command: [python, /app/other.py]")
    assert_ended(few.run("synth", "--keep-going"), 1, "TW107")
    assert few.read(FOUNDATION) == before
    few.edit("charts/runs/sdk-train.yaml", "gpus_per_node: 2", "gpus_per_node: 4")
    assert_ended(few.run("synth", "sdk-train"), 0)
    assert "name: xgboost-" in few.read(FOUNDATION)
    assert_ended(few.run("check", "sdk-train"), 0)
    few.edit("charts/runs/xgboost-trainjob.yaml", "rounds: 0", "rounds: 500")
    assert_ended(few.run("synth"), 0)
    assert_ended(few.run("check"), 0)
    shutil.copytree(few.root / "charts", few.root / "fresh" / "charts", ignore=shutil.ignore_patterns("lock"))
    fresh = Scratch(few.root / "fresh")
    fresh.synth()
    assert fresh.dist() == few.dist()
    assert files(fresh.project.records) == files(few.project.records)


def test_a_run_that_would_restart_holds_nobody_up_and_the_profile_is_recorded_when_all_are_in_step(few: Scratch) -> None:
    move_laptop(few)
    few.edit("charts/runs/sdk-train.yaml", "command: [python, /app/train.py]", "command: [python, /app/other.py]")
    profile = "charts/lock/clusters/laptop.yaml"
    assert_ended(few.run("synth", "sdk-train"), 0)
    ended = few.run("synth", "--keep-going")
    assert_ended(ended, 1, "2 runs, which would restart: digits-ddp (", "`trainwright roll digits-ddp stdlib-lm`")
    assert not [path for path in changed(few) if "sdk-train" not in path]
    ended = few.run("roll", "digits-ddp")
    assert_ended(ended, 0)
    assert "node_pools" not in few.git("diff", profile)
    assert_ended(few.run("check"), 1, "1 run, which would restart: stdlib-lm (")
    assert_ended(few.run("roll", "stdlib-lm"), 0)
    assert '+  node_pools/cpu/labels/pool: "new"' in few.git("diff", profile)
    assert_ended(few.run("check"), 0)


# What is said.


def said(few: Scratch, *arguments: str) -> list[str]:
    ended = few.run("synth", *arguments)
    assert_ended(ended, 0)
    return ended.stdout.splitlines()


def test_nothing_changed_is_one_line(few: Scratch) -> None:
    assert said(few) == ["nothing changed: 4 runs are as in dist/"]
    assert said(few, "digits-ddp") == ["nothing changed: digits-ddp is as in dist/"]


def test_one_line_for_each_run_that_changed(few: Scratch) -> None:
    old = {name: record.identity for name, record in last_records(few.project).runs.items()}
    few.edit(DIGITS, "base: 2e-3", "base: 3e-3")
    few.edit(STDLIB, "hidden_size: 128", "hidden_size: 256")
    few.write("charts/runs/sdk-train.yaml", few.read("charts/runs/sdk-train.yaml") + "labels: {example.com/note: edited}\n")
    few.path("charts/runs/xgboost-trainjob.yaml").unlink()
    few.write("charts/runs/again.yaml", few.read(DIGITS).replace("run: digits-ddp", "run: again"))
    lines = said(few)
    new = {name: record.identity for name, record in last_records(few.project).runs.items()}
    lineage = last_records(few.project).runs["stdlib-lm"].facts["checkpoints.lineage"]
    assert lines == [
        f"again: new run {new['again']}; DDP on 2 CPU ranks of laptop",
        f"digits-ddp: new run {new['digits-ddp']} replaces {old['digits-ddp']}; learning rate 2.0e-3 → 3.0e-3; "
        "resumes from lineage mv56ek2k",
        f"sdk-train: {old['sdk-train']} stays, changed in place; labels example.com/note edited added",
        f"stdlib-lm: new run {new['stdlib-lm']} replaces {old['stdlib-lm']}; model hidden size 128 → 256; "
        f"starts at step 0, unless /checkpoints/stdlib-lm/{lineage} has checkpoints",
        f"xgboost-trainjob: removed, {old['xgboost-trainjob']} leaves dist/: "
        "its job is stopped if it still runs; its checkpoints stay",
        "foundation trainer-h100/research: changed: " + lines[-1].partition("changed: ")[2],
    ]
    assert "TrainingRuntime xgboost-" in lines[-1], "what is in the foundation for that run alone"
    assert lines[-1].endswith(" removed")


@pytest.mark.parametrize(("before", "after", "what"), [
    ("size: 10Gi", "size: 20Gi", "PersistentVolumeClaim training-checkpoints: /spec/resources/requests/storage 10Gi → 20Gi"),
    ("pod_security: restricted", "pod_security: baseline",
     "Namespace training: /metadata/labels/pod-security.kubernetes.io~1enforce restricted → baseline"),
    ("claims:\n", "claims:\n      more: {storage_class: standard, size: 1Gi}\n", "PersistentVolumeClaim more added"),
    ("registries:", "monitoring: {kind: prometheus-operator}\nregistries:", "PodMonitor "),
])
def test_what_changed_in_a_foundation_is_said(before: str, after: str, what: str, few: Scratch) -> None:
    few.edit("charts/clusters/laptop.yaml", before, after)
    lines = [line for line in said(few) if line.startswith("foundation ")]
    assert [line.partition(" changed: ")[0] for line in lines] == ["foundation laptop/training:"]
    assert what in lines[0]


TAG = "registry.example.com/trainwright/trainer:latest"


def tagged(text: str) -> str:
    return re.sub("image: .*", f"image: {TAG}", text)


def test_warnings_of_runs_that_nobody_touched_are_not_repeated(few: Scratch) -> None:
    for path in (DIGITS, STDLIB):
        few.write(path, tagged(few.read(path)))
    assert few.run("synth").stderr.count("warning TW305") == 1, "for both, with the place of each"
    few.write("charts/defaults.yaml", "all:\n  labels: {example.com/owner: platform}\n")
    few.edit(DIGITS, "base: 2e-3", "base: 3e-3")
    ended = few.run("synth")
    assert_ended(ended, 0)
    assert "stdlib-lm: " in ended.stdout, "its record changes"
    assert DIGITS in ended.stderr, "it was edited"
    assert STDLIB not in ended.stderr
    ended = few.run("check")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "in order; 1 warning as recorded" in ended.stdout
    assert "TW305" in few.run("check", "-v").stderr
    assert "TW305" in few.run("check", "stdlib-lm").stderr
    assert "TW305" in few.run("check", "--format", "json").stdout
    few.edit(STDLIB, "hidden_size: 128", "hidden_size: 256")
    assert f"{STDLIB}:" in few.run("check").stderr, "an edit of its own"


def test_an_edit_that_changes_no_pod_is_said_as_such(few: Scratch) -> None:
    few.write(DIGITS, "# reviewed\n" + few.read(DIGITS))
    line, *_ = said(few)
    assert line.endswith("stays, its pods are as before")
    few.write(STDLIB, few.read(STDLIB) + "state: done\n")
    line, *_ = said(few)
    assert line.startswith("stdlib-lm: done, ")
    assert line.endswith(" leaves dist/: its job is stopped if it still runs; its checkpoints stay")


def test_verbose_prints_plans_of_what_is_asked_for(few: Scratch) -> None:
    lines = said(few, "-v", "digits-ddp")
    assert "  batch         64 = micro 32 x accumulation 1 x 2 ranks" in lines
    assert not any(line.startswith("stdlib-lm") for line in lines)
    assert lines[-1] == "nothing changed: digits-ddp is as in dist/"


CLAIM = "of claim checkpoints on trainer-h100, namespace research"


def test_a_script_with_a_named_lineage_resumes_after_an_edit_of_its_image(few: Scratch) -> None:
    file, image = "charts/runs/sdk-train.yaml", "registry.example.com/another@sha256:"
    few.edit(file, "checkpoints: {by: own}", "checkpoints: {by: own, lineage: first}")
    assert_ended(few.run("synth"), 0)
    assert last_records(few.project).runs["sdk-train"].facts["checkpoints.lineage"] == "first"
    few.write(file, re.sub(r"image: \S+", f"image: {image}{'b' * 64}", few.read(file)))
    line, *_ = said(few)
    assert line.endswith("; resumes if its program finds checkpoints in /checkpoints/sdk-train/first as before")
    few.edit(file, "lineage: first", "lineage: second")
    line, *_ = said(few)
    assert line.endswith(f"; resumes if its program finds checkpoints in sdk-train/second {CLAIM}")
    few.edit(file, "lineage: second", "lineage: first")
    line, *_ = said(few)
    assert line.endswith(f"; resumes if its program finds checkpoints in sdk-train/first {CLAIM}")
