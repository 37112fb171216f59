"""How much the command line says, and how it looks on a terminal, in a pipe and where its reader leaves."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from tests.compiler.cli.terminal import talk
from tests.compiler.projects import ROOT, TRAINWRIGHT, Scratch, assert_ended, scratch

from trainwright.cli import session, validate

LLAMA = "charts/runs/llama-1b-ddp.yaml"


@pytest.fixture
def here(tmp_path: Path) -> Scratch:
    return scratch(tmp_path / "project")


# Options that every program has.


def test_the_version() -> None:
    ended = Scratch(ROOT).run("--version")
    assert_ended(ended, 0)
    assert ended.stdout == f"trainwright {version('trainwright')}\n"


def test_the_short_help_is_the_help() -> None:
    here = Scratch(ROOT)
    assert here.run("-h").stdout == here.run("--help").stdout
    assert here.run("check", "-h").stdout == here.run("check", "--help").stdout


def test_as_a_module() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "trainwright", "rules", "TW105"], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, Scratch(ROOT).run("rules", "TW105").stdout)


def test_a_shell_completes_commands_and_options() -> None:
    asked = {"_TRAINWRIGHT_COMPLETE": "complete_bash", "COMP_CWORD": "1"}
    here = Scratch(ROOT)
    assert here.run(environment={**asked, "COMP_WORDS": "trainwright ch"}).stdout.split() == ["check"]
    asked["COMP_CWORD"] = "2"
    assert "--keep-going" in here.run(environment={**asked, "COMP_WORDS": "trainwright synth --"}).stdout.split()


# How much is said.


def test_a_clean_check_is_one_line_and_counts_what_it_does_not_show() -> None:
    ended = Scratch(ROOT).run("check", "own-script")
    assert_ended(ended, 0)
    assert (ended.stdout, ended.stderr) == ("own-script: in order; 1 note, shown by -v\n", "")
    ended = Scratch(ROOT).run("check", "llama-1b-ddp")
    assert (ended.stdout, ended.stderr) == ("llama-1b-ddp: in order\n", "")


def test_a_check_counts_what_the_records_have_and_shows_it_verbosely_once_with_its_places() -> None:
    shown, verbose = (Scratch(ROOT).run(*arguments) for arguments in (["check"], ["check", "-v"]))
    said = r"28 runs and 7 foundations: in order; [0-9]+ warnings as recorded and [0-9]+ notes, shown by -v\n"
    assert re.fullmatch(said, shown.stdout)
    assert shown.stderr == "", "whoever edited these runs has read them"
    assert {line.split()[1] for line in verbose.stderr.splitlines() if line.startswith("charts/")} == {"warning", "note"}
    assert verbose.stdout == "28 runs and 7 foundations: in order\n"
    assert verbose.stderr.count(" note TW321 ") == 1
    assert "    also: charts/runs/hostnetwork-ddp.yaml:9:12, charts/runs/nccl-training.yaml:10:12, " in verbose.stderr


@pytest.mark.parametrize("command", ["check", "synth"])
def test_quiet_says_nothing_but_errors(command: str, here: Scratch) -> None:
    ended = here.run(command, "-q")
    assert_ended(ended, 0)
    assert ended.stdout + ended.stderr == ""
    here.edit(LLAMA, "micro: 8", "micro: 800")
    ended = here.run(command, "-q")
    assert_ended(ended, 1, " error TW")
    assert ended.stdout == ""
    assert not re.search(" (note|warning) TW", ended.stderr)


def test_quiet_and_verbose_contradict_each_other() -> None:
    assert_ended(Scratch(ROOT).run("check", "-q", "-v"), 2, "contradict")


# Where it is said.


def test_a_reader_that_leaves_ends_it_as_a_shell_expects() -> None:
    longer_than_a_pipe_holds = "dist/kubeflow-a100/training/foundation/training.k8s.yaml"
    command = [str(TRAINWRIGHT), "explain", longer_than_a_pipe_holds]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith("dist/")
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(60) == 141


WIPED = "\x1b[2K"
"""What ends a bar, which a machine shows that is too busy to be done in two seconds."""


def test_a_terminal_gets_colour_and_lines_of_its_width() -> None:
    command = [str(TRAINWRIGHT), "check", "-v", "own-script"]
    code, said = talk(command, ROOT, environment={"TERM": "xterm"})
    said = said.rpartition(WIPED)[2]
    assert code == 0
    assert "\x1b[1;36mnote" in said
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in said.splitlines()]
    assert max(map(len, lines)) <= 80
    assert lines[0].endswith("TW321 the program reports no steps: only ")
    code, plain = talk(command, ROOT, environment={"TERM": "xterm", "NO_COLOR": "1"})
    assert code == 0
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", plain)


def test_rows_of_a_plan_go_on_in_their_column() -> None:
    _, said = talk([str(TRAINWRIGHT), "plan", "llama-1b-ddp"], ROOT)
    lines = said.splitlines()
    assert max(map(len, lines)) <= 80
    row = next(index for index, line in enumerate(lines) if line.startswith("  learning rate "))
    assert lines[row + 1] == " " * 16 + "batch 256, x 1.414 at 512)"


def test_messages_are_as_wide_as_the_terminal_too() -> None:
    code, said = talk([str(TRAINWRIGHT), "explain", "nothing"], ROOT)
    assert code == 2
    assert len(said.splitlines()) == 2
    assert max(map(len, said.splitlines())) <= 80


def test_what_takes_seconds_shows_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(session, "PATIENCE", 0.0)
    monkeypatch.delenv("CI", raising=False)
    for stream, terminal, shows in ((Terminal(), "xterm", True), (Terminal(), "dumb", False), (io.StringIO(), "xterm", False)):
        monkeypatch.setenv("TERM", terminal)
        monkeypatch.setattr(sys, "stderr", stream)
        assert list(session.watched(range(3), "compiling runs")) == [0, 1, 2]
        assert ("compiling runs" in stream.getvalue()) is shows
        validate.command([ROOT / "dist" / "laptop"])
        assert ("reading manifests" in stream.getvalue()) is shows
        assert shows or stream.getvalue() == "", "not even an empty line"
