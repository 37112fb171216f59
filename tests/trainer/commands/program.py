"""The program as a person starts it and as the docs show it, and small runs of digits to start it with."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.trainer.training.conftest import build_spec

ROOT = Path(__file__).parents[3]
PAGES = ("trainer.md", "verify-resume.md")
SECONDS = 280


def shown(command: str) -> list[list[str]]:
    """What the pages show of a command, in their order: words after the program's name."""
    lines = [line for page in PAGES for line in (ROOT / "docs" / page).read_text(encoding="utf-8").splitlines()]
    found = [shlex.split(line)[1:] for line in lines if line.startswith(f"trainwright-trainer {command} ")]
    assert found, f"no page shows {command}"
    return found


def write_run(folder: Path, **work: Any) -> Path:
    """A run of two ranks whose steps take long enough to be killed in; keywords replace keys of its work, ``world`` its ranks."""
    document = build_spec()(folder / "own-checkpoints", **work)
    document["work"]["model"] |= {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 4}
    path = folder / "run.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def environment() -> dict[str, str]:
    """One thread a rank: tests share a machine."""
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """The program in a folder."""
    command = [sys.executable, "-m", "trainwright_trainer", *arguments]
    return subprocess.Popen(
        command, cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    )


def run(folder: Path, *arguments: str, code: int = 0) -> tuple[str, str]:
    """Its output and its errors. Expects this exit code."""
    process = start(folder, *arguments)
    out, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == code, f"{process.returncode} instead of {code}:\n{out[-4000:]}\n{errors[-4000:]}"
    return out, errors
