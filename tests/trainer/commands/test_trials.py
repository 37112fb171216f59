"""How the commands that start a run end where something is wrong with this machine, or with themselves."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from tests.trainer.contract.specifications import changed
from typer.testing import CliRunner, Result

from trainwright_trainer.commands.app import app
from trainwright_trainer.commands.verify_resume.comparison import Check, Proof
from trainwright_trainer.commands.verify_resume.run import Request

PROOF = Proof("run-1", "ddp", 12, 4, 2, 7, 4, 0, {2: (Check("samples", True, "same"),)})


def call(folder: Path, command: str, *arguments: str) -> Result:
    spec = folder / "run.json"
    spec.write_text(json.dumps(changed({})), encoding="utf-8")
    return CliRunner().invoke(app, [command, "--spec", str(spec), *arguments])


@pytest.mark.parametrize("command", ["train", "bench", "verify-resume"])
def test_no_place_for_temporary_files_is_a_sentence(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    result = call(tmp_path, command)
    assert result.exit_code == 203, result.output
    [line] = result.stderr.splitlines()
    assert line.startswith(f"error: {tmp_path / 'none'}")
    assert line.endswith("give access and space there, or name another place (temporary files: TMPDIR)")


@pytest.mark.parametrize("command", ["bench", "verify-resume"])
@pytest.mark.parametrize(("file", "says"), [("none/found.json", "is not a directory; make it"), (".", "is a directory; name")])
def test_figures_that_would_have_no_place_are_refused_first(command: str, file: str, says: str, tmp_path: Path) -> None:
    result = call(tmp_path, command, "--json", str(tmp_path / file))
    assert result.exit_code == 10, result.output
    assert says in result.stderr


def test_a_file_that_cannot_be_written_after_all_fails_and_the_report_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "proof.json"

    def prove(request: Request) -> Proof:
        file.mkdir()  # in the way since
        return PROOF

    monkeypatch.setattr("trainwright_trainer.commands.verify_resume.run.verify_resume", prove)
    result = call(tmp_path, "verify-resume", "--json", str(file))
    assert result.exit_code == 203, result.output
    assert result.stdout.splitlines()[-1] == "proven at 2 ranks"
    assert str(file) in result.stderr


def test_an_error_of_the_program_is_no_failed_proof(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def prove(request: Request) -> Proof:
        raise KeyError("a step")

    monkeypatch.setattr("trainwright_trainer.commands.verify_resume.run.verify_resume", prove)
    result = call(tmp_path, "verify-resume")
    assert result.exit_code == 200, result.output
    assert "KeyError" in result.stderr
