"""The command line, as a process: exit codes as documented, and never a traceback."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from tests.compiler.projects import ROOT, TRAINWRIGHT, Scratch, assert_ended, scratch

from trainwright.findings.codes import CODES
from trainwright.operators.operator import makes_pods
from trainwright.reading.document import read_yaml
from trainwright.run import Run

Data = dict[str, Any]
DIGITS = "charts/runs/digits-ddp.yaml"
DIGITS_DIST = "dist/laptop/training/runs/digits-ddp.k8s.yaml"
COMMANDS = (
    "list", "synth", "check", "diff", "plan", "explain", "roll", "hold", "pause", "resume", "retire", "apply",
    "schema", "rules", "policies", "new", "init", "import", "rehearse", "validate", "crds", "images", "runtimes", "page",
    "status", "logs", "diagnose", "collect",
)


@pytest.fixture
def here(tmp_path: Path) -> Scratch:
    return scratch(tmp_path / "project")


# Help.


def test_help_names_every_command_and_every_exit_code() -> None:
    ended = Scratch(ROOT).run("--help")
    assert ended.returncode == 0
    assert re.findall(r"^  ([a-z]+) ", ended.stdout, flags=re.MULTILINE) == list(COMMANDS)
    for code in ("0 ", "1 ", "2 ", "3 ", "70 ", "141 "):
        assert code in ended.stdout


@pytest.mark.parametrize(
    "arguments", [["plan"], ["nothing"], ["plan", "a", "b"], ["check", "--nothing"], ["schema", "pod"], ["roll"], ["init"]]
)
def test_wrong_usage_ends_with_2(arguments: list[str]) -> None:
    assert_ended(Scratch(ROOT).run(*arguments), 2)


# What a file says is shown, and steers no terminal.


HOSTILE = r'"H100\e]0;owned\a\e[2J\r\u202e\nrun: fine"'


def test_text_of_a_profile_is_escaped_wherever_it_is_printed(here: Scratch) -> None:
    profile = "charts/clusters/h100-ib.yaml"
    here.write(profile, here.read(profile).replace("model: H100", f"model: {HOSTILE}"))
    for arguments in (["plan", "llama-finetune"], ["plan", "llama-finetune", "--target", "job-set"], ["check"], ["synth"]):
        ended = here.run(*arguments)
        said = ended.stdout + ended.stderr
        assert not [char for char in said if char != "\n" and not char.isprintable()], arguments
        assert "\nrun: fine" not in said
    assert r"H100\x1b]0;owned\x07" in here.run("plan", "llama-finetune").stdout


def test_a_plan_with_a_profile_that_has_errors_ends_with_1(here: Scratch) -> None:
    profile = "charts/clusters/laptop.yaml"
    here.edit(profile, "standard: {access: [ReadWriteOnce, ReadWriteMany]}", "standard: {access: [ReadWriteOnce]}")
    ended = here.run("plan", "digits-ddp")
    assert_ended(ended, 1, "TW312", f"{profile}:15")
    assert ended.stdout == ""
    other = here.run("plan", "llama-finetune")
    assert_ended(other, 0)


# Names that do not exist.


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("roll", "nothing"),
        ("rehearse", "../x"),
        *(("plan", name) for name in ("nothing", "a" * 300, "../digits-ddp", "", "名前", "a/b")),
    ],
)
def test_a_run_that_is_not_there_ends_with_2_and_the_runs_that_are(command: str, name: str) -> None:
    ended = Scratch(ROOT).run(command, "--", name)
    assert_ended(ended, 2, "there is no run", "digits-ddp")


@pytest.mark.parametrize("name", ["digts-ddp", "digits_ddp", "charts/runs/digits-ddp.yaml"])
def test_a_run_that_is_nearly_there_is_suggested(name: str) -> None:
    assert_ended(Scratch(ROOT).run("plan", name), 2, "did you mean digits-ddp?")


def test_a_folder_without_a_project_ends_with_2(tmp_path: Path) -> None:
    for arguments in (["check"], ["plan", "x"], ["synth"], ["init", "x"], ["explain", "x"]):
        assert_ended(Scratch(tmp_path).run(*arguments), 2, "no project here", "--project")
    assert_ended(Scratch(tmp_path).run("check", "--project", "/nothing/here"), 2, "no project here")


def test_a_project_is_found_from_a_folder_inside_and_by_its_option(here: Scratch, tmp_path: Path) -> None:
    assert_ended(here.run("check", folder="charts/runs"), 0)
    assert_ended(Scratch(tmp_path).run("check", "--project", str(here.root)), 0)


# Files that are broken.


BROKEN = {
    "yaml": (DIGITS, b"run: [\n", "TW102"),
    "binary": (DIGITS, b"\xff\xfe\x00\x01", "TW101"),
    "list": (DIGITS, b"- a\n", "TW104"),
    "empty": (DIGITS, b"", "TW104"),
    "large": (DIGITS, b"a: " + b"x" * 2**21, "TW101"),
    "deep": (DIGITS, b"a: " + b"[" * 5000, "TW10"),
    "bomb": (
        DIGITS,
        b"a: &a [x,x,x,x,x,x,x,x,x]\n"
        + b"".join(b"%c: &%c [%s]\n" % (c + 1, c + 1, b",".join([b"*%c" % c] * 9)) for c in range(97, 105)),
        "TW104",
    ),
    "profile": ("charts/clusters/laptop.yaml", b"cluster: laptop\n", "TW106"),
    "module": ("charts/runs/torchrun_command.py", b"import nothing_of_that_name\n", "TW108"),
    "syntax": ("charts/runs/torchrun_command.py", b"RUN = (\n", "TW108"),
    "exit": ("charts/runs/torchrun_command.py", b"import sys\nsys.exit(0)\n", "TW108"),
    "no-run": ("charts/runs/torchrun_command.py", b"RUN = 1\n", "TW108"),
    "record": ("charts/lock/digits-ddp.yaml", b"<<<<<<< HEAD\n", "TW506"),
    "record-binary": ("charts/lock/foundation/laptop/training.yaml", b"\xff", "TW506"),
    "record-of-profile": ("charts/lock/clusters/laptop.yaml", b"record: 2\n", "TW506"),
}


@pytest.mark.parametrize(("file", "content", "code"), BROKEN.values(), ids=BROKEN)
def test_a_broken_file_ends_synth_with_1_and_a_finding(file: str, content: bytes, code: str, here: Scratch) -> None:
    here.path(file).write_bytes(content)
    dist = here.dist()
    assert_ended(here.run("synth"), 1, code, file)
    assert here.dist() == dist


def test_check_ends_with_1_where_a_file_is_broken(here: Scratch) -> None:
    here.write(DIGITS, "run: [\n")
    here.write("charts/clusters/h100-ib.yaml", "cluster: h100-ib\n")
    ended = here.run("check")
    assert_ended(ended, 1, DIGITS, "charts/clusters/h100-ib.yaml")
    assert "TW110" not in ended.stderr, "the profile is there: what is wrong with it says more than that it is missing"


@pytest.mark.parametrize("name", ["yaml", "module", "profile"])
def test_a_broken_file_ends_plan_explain_and_rehearse_with_a_finding(name: str, here: Scratch) -> None:
    file, content, code = BROKEN[name]
    here.path(file).write_bytes(content)
    run = "torchrun-command" if name == "module" else "digits-ddp"
    assert_ended(here.run("plan", run), 1, code, file)
    dist = f"dist/{'h100-ib' if name == 'module' else 'laptop'}/training/runs/{run}.k8s.yaml"
    assert_ended(here.run("explain", f"{dist}:1"), 1, code, file)


def test_one_broken_run_does_not_hide_another(here: Scratch) -> None:
    here.path(DIGITS).write_text("run: [\n", encoding="utf-8")
    assert_ended(here.run("plan", "stdlib-lm"), 0)


def test_what_cannot_be_read_ends_with_a_message(here: Scratch) -> None:
    here.path(DIGITS).unlink()
    here.path(DIGITS).symlink_to(here.path(DIGITS))
    assert_ended(here.run("check"), 1, "TW101", DIGITS)
    here.path(DIGITS).unlink()
    here.path(DIGITS).mkdir()
    assert_ended(here.run("check"), 1, "TW101", DIGITS)


def test_a_dist_that_cannot_be_written_ends_with_3(here: Scratch) -> None:
    shutil.rmtree(here.root / "dist")
    here.write("dist", "a file\n")
    assert_ended(here.run("synth"), 3, "trainwright: ", "dist")
    assert here.read("dist") == "a file\n"


@pytest.mark.parametrize("node", ["/nothing/node", "/bin/false"])
def test_a_node_that_does_not_run_ends_with_3_and_touches_nothing(node: str, here: Scratch) -> None:
    here.edit(DIGITS, "base: 2e-3", "base: 3e-3")
    dist = here.dist()
    assert_ended(here.run("synth", environment={"JSII_NODE": node}), 3, "Node", "JSII_NODE")
    assert here.dist() == dist
    assert_ended(here.run("check", environment={"JSII_NODE": node}), 1, "TW502")


@pytest.mark.parametrize("epoch", ["yesterday", "", "-1e9", str(10**30)])
def test_a_source_date_epoch_that_is_none_ends_with_a_message(epoch: str) -> None:
    assert_ended(Scratch(ROOT).run("check", environment={"SOURCE_DATE_EPOCH": epoch}), 2, "SOURCE_DATE_EPOCH")


def test_a_waiver_expires_on_the_same_day_everywhere(here: Scratch) -> None:
    here.edit(DIGITS, "@sha256:bca6d13be098a4938d4194efe11cd5bb14289e796daff1392373572e047a35a8", ":nightly")
    here.write(DIGITS, here.read(DIGITS) + 'waivers: [{code: TW305, reason: "built anew every night", expires: "2030-06-15"}]\n')
    for zone in ("Pacific/Kiritimati", "Pacific/Pago_Pago", "UTC"):
        last, after = {"TZ": zone, "SOURCE_DATE_EPOCH": "1907798399"}, {"TZ": zone, "SOURCE_DATE_EPOCH": "1907798400"}
        assert_ended(here.run("plan", "digits-ddp", environment=last), 0)
        assert_ended(here.run("plan", "digits-ddp", environment=after), 1, "TW611")


# Rehearse, as far as it goes without pods.


def test_a_run_that_is_done_has_nothing_to_rehearse(here: Scratch) -> None:
    here.write(DIGITS, here.read(DIGITS) + "state: done\n")
    assert_ended(here.run("rehearse", "digits-ddp"), 2, "digits-ddp is done and not in dist/")


def test_a_folder_that_no_command_takes_is_no_mount(here: Scratch) -> None:
    here.write("my data/a.txt", "")
    assert_ended(here.run("rehearse", "digits-ddp", "--mount", "/data=my data"), 2, "has ' ' in it, and it becomes a part of")


def test_a_rehearsal_of_older_yaml_says_so(here: Scratch) -> None:
    run = "charts/runs/own-script.yaml"
    here.write(run, here.read(run) + "attempt: 2\n")
    ended = here.run("rehearse", "own-script")  # without the value of its Secret it ends before a pod starts
    assert_ended(ended, 3, f"{run} changed since dist/ was written")


# Explain.


def test_explain_takes_a_file_a_line_and_a_pointer() -> None:
    here = Scratch(ROOT)
    lines = (ROOT / DIGITS_DIST).read_text(encoding="utf-8").split("\n")
    number = next(number for number, line in enumerate(lines, 1) if "completions: 2" in line)
    by_line, by_pointer = (
        here.run("explain", f"{DIGITS_DIST}:{number}"),
        here.run("explain", f"{DIGITS_DIST}:/Job/spec/completions"),
    )
    assert_ended(by_line, 0)
    assert by_line.stdout == by_pointer.stdout
    assert f"{DIGITS_DIST}:{number}: completions: 2" in by_line.stdout
    stated = next(number for number, line in enumerate(here.read(DIGITS).split("\n"), 1) if "nodes: 2" in line)
    assert f"({DIGITS}:{stated}:" in by_line.stdout
    everything = here.run("explain", DIGITS_DIST)
    assert_ended(everything, 0)
    assert len(re.findall(rf"^{re.escape(DIGITS_DIST)}:[0-9]+: ", everything.stdout, flags=re.MULTILINE)) == len(lines) - 1
    assert f"{DIGITS_DIST}:100: " in everything.stdout, "no line number may become an emoji"


@pytest.mark.parametrize(
    "place",
    [
        "nothing.yaml",
        f"{DIGITS_DIST}:99999",
        f"{DIGITS_DIST}:0",
        f"{DIGITS_DIST}:²",
        f"{DIGITS_DIST}:/Job/nothing",
        DIGITS,
        f"{DIGITS_DIST}:" + "9" * 5000,
    ],
)
def test_explain_of_what_is_not_there_ends_with_2(place: str) -> None:
    assert_ended(Scratch(ROOT).run("explain", place), 2)


def test_explain_of_an_edited_file_ends_with_1(here: Scratch) -> None:
    here.write(DIGITS_DIST, here.read(DIGITS_DIST) + "---\nkind: ConfigMap\n")
    assert_ended(here.run("explain", f"{DIGITS_DIST}:1"), 1, "TW503")


# Rules and schema.


def test_a_record_is_explained_without_a_clone() -> None:
    here = Scratch(ROOT)
    first = here.read("charts/lock/digits-ddp.yaml").splitlines()[0]
    assert "`trainwright explain` of it says what each line is" in first
    for record in ("digits-ddp.yaml", "clusters/laptop.yaml", "foundation/laptop/training.yaml"):
        ended = here.run("explain", f"charts/lock/{record}")
        assert_ended(ended, 0)
        assert ended.stdout.startswith("# The record\n")
        assert "| `identity` |" in ended.stdout


@pytest.mark.parametrize("break_it", [
    ('env: {RANK: "1"}\n', "TW403", True), ("overrides: {pod: {spec: {hostname: mine}}}\n", "TW602", True),
    ("gpus: 8\n", "TW105", False), ("attempt: [\n", "TW102", False), ("state: over\n", "TW107", False),
], ids=lambda one: one[1])
def test_a_plan_in_json_is_printed_beside_an_error(break_it: tuple[str, str, bool], tmp_path: Path) -> None:
    text, code, planned = break_it
    here = Scratch(tmp_path)
    here.write("charts/clusters/laptop.yaml", (ROOT / "charts/clusters/laptop.yaml").read_text(encoding="utf-8"))
    here.write("charts/runs/digits-ddp.yaml", (ROOT / "charts/runs/digits-ddp.yaml").read_text(encoding="utf-8") + text)
    ended = here.run("plan", "digits-ddp", "--json")
    assert (ended.returncode, ended.stderr) == (1, "")
    data = json.loads(ended.stdout)
    assert code in {finding["code"] for finding in data["findings"]}
    assert ("environment" in data) == planned
    said = here.run("plan", "digits-ddp", "-q")
    assert (said.returncode, said.stdout) == (1, "")
    assert code in said.stderr


def test_a_quiet_plan_says_errors_alone() -> None:
    ended = Scratch(ROOT).run("plan", "resnet50-imagenet", "-q")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_rules_lists_every_code_and_explains_one() -> None:
    here = Scratch(ROOT)
    assert re.findall(r"^(TW[0-9]{3})", here.run("rules").stdout, flags=re.MULTILINE) == list(CODES)
    assert [row["code"] for row in json.loads(here.run("rules", "--json").stdout)] == list(CODES)
    page = here.run("rules", "tw203").stdout
    assert page.startswith(f"# TW203: {CODES['TW203'].title}\n")
    assert "## Good\n\ncharts/runs/example.yaml:\n\n    " in page
    assert not any(sign in page for sign in ("](", "```", "docs/")), "there is no clone to look into"
    assert_ended(here.run("rules", "TW999"), 2, "TW999")


@pytest.mark.parametrize("kind", ["run", "cluster"])
def test_schema_is_a_json_schema_that_takes_the_charts(kind: str) -> None:
    ended = Scratch(ROOT).run("schema", kind)
    assert_ended(ended, 0)
    schema = json.loads(ended.stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    folder = "runs" if kind == "run" else "clusters"
    files = [*(ROOT / "charts" / folder).glob("*.yaml"), *(ROOT / "tests/compiler/fleet/charts" / folder).glob("*.yaml")]
    assert files
    for file in files:
        assert list(validator.iter_errors(read_yaml(file).data)) == []


@pytest.mark.parametrize(
    "edit", [{"batch": {"micro": 0}}, {"unknown": 1}, {"run": "Upper"}, {"peer_wait": 30}, {"topology": {"kind": "zero"}}]
)
def test_schema_refuses_what_the_compiler_refuses(edit: Data) -> None:
    data = read_yaml(ROOT / DIGITS).data | edit
    schema = Run.model_json_schema()
    assert list(jsonschema.Draft202012Validator(schema).iter_errors(data))


@pytest.mark.parametrize(
    ("topology", "message"),
    [
        ({"kind": "ddp", "nods": 2, "nodes": 2, "gpus_per_node": 0}, "('nods' was unexpected)"),
        ({"kind": "ddp", "nodes": "2", "gpus_per_node": 0}, "'2' is not of type 'integer'"),
        ({"kind": "zero", "nodes": 2, "gpus_per_node": 0}, "'zero' is not one of ['ddp',"),
        ({"nodes": 2, "gpus_per_node": 0}, "'kind' is a required property"),
    ],
)
def test_schema_says_which_key_of_a_topology_is_wrong(topology: Data, message: str) -> None:
    """As an editor shows it: one error, at the place, and not that no kind of topology fits."""
    data = read_yaml(ROOT / DIGITS).data | {"topology": topology}
    schema = json.loads(Scratch(ROOT).run("schema").stdout)
    (error,) = jsonschema.Draft202012Validator(schema).iter_errors(data)
    assert message in error.message
    assert "topology" in error.absolute_path


# Output.


def test_a_reader_that_leaves_early_is_no_error() -> None:
    ended = subprocess.run(
        ["bash", "-c", 'set -o pipefail; "$0" schema | head -c 10; exit "${PIPESTATUS[0]}"', str(TRAINWRIGHT)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )
    assert "Traceback" not in ended.stderr
    assert "Exception ignored" not in ended.stderr
    assert "Broken pipe" not in ended.stderr


@pytest.mark.parametrize("said", ["new p --cluster laptop", "check", "plan nothing"])
def test_a_reader_of_messages_that_leaves_early_is_no_finding(said: str, tmp_path: Path) -> None:
    """Both streams go to a pipe that nobody reads; what could not be said is no error of the project."""
    project = scratch(tmp_path / "project")
    project.edit("charts/runs/digits-ddp.yaml", "nodes: 2", "node: 2")
    reads, writes = os.pipe()
    os.close(reads)
    ended = subprocess.run(
        [TRAINWRIGHT, *said.split()], cwd=project.root, stdin=subprocess.DEVNULL, stdout=writes, stderr=writes, check=False,
    )
    os.close(writes)
    assert ended.returncode == 141


def test_a_wrong_value_is_said_in_plain_words() -> None:
    ended = Scratch(ROOT).run("check", "--format", "xml")
    assert_ended(ended, 2, "Invalid value for '--format': 'xml' is not one of 'text', 'json'")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_a_terminal_without_unicode_is_no_error(encoding: str) -> None:
    ended = subprocess.run(
        [TRAINWRIGHT, "plan", "digits-ddp"], cwd=ROOT, env={**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"},
        capture_output=True, check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert b"digits-ddp-" in ended.stdout


def test_a_run_is_rehearsed_on_another_target(here: Scratch) -> None:
    """It is compiled for that, which is said; here it ends before a pod starts, since only the image has the script."""
    ended = here.run("rehearse", "own-script", "--target", "job-set")
    assert ended.returncode == 3
    assert "compiled from charts/runs/own-script.yaml for job-set" in ended.stdout + ended.stderr
    assert "JobSet own-script-" in ended.stdout
    assert_ended(here.run("rehearse", "own-script", "--target", "jobset"), 2, "did you mean job-set?")
    assert here.run("rehearse", "own-script", "--target", "mpi-job").returncode == 1


def test_what_is_rehearsed_on_another_target_is_the_run_alone(here: Scratch) -> None:
    """Not the Job that fetches its data, which is of the namespace."""
    ended = here.run("rehearse", "resnet50-imagenet", "--target", "volcano-job", "--python", "/none")
    assert_ended(ended, 2, "there is no /none/bin/python")
    [file] = (here.root / ".rehearsal").glob("*.json")
    assert [one["kind"] for one in json.loads(file.read_text())["items"] if makes_pods(one)] == ["Job"]
