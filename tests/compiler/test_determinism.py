"""The same bytes for any hash seed, locale, time zone and working directory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.compiler.projects import ROOT, files
from tests.compiler.strategies import mutations, pairs

PLACES: dict[str, dict[str, str]] = {
    "here": {"PYTHONHASHSEED": "0"},
    "C, the last zone": {
        "PYTHONHASHSEED": "1", "LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0",
        "TZ": "Pacific/Pago_Pago",
    },
    "C.UTF-8, the first zone": {
        "PYTHONHASHSEED": "4294967295", "LC_ALL": "C.UTF-8", "LANG": "C.UTF-8", "TZ": "Pacific/Kiritimati",
    },
    "Turkish, optimised": {  # C where it is not installed
        "PYTHONHASHSEED": "2", "LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8", "LANGUAGE": "tr", "PYTHONOPTIMIZE": "1",
    },
}  # fmt: skip


def batch() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """About thirty runs with their clusters, some of which do not compile."""
    drawn: list[tuple[dict[str, Any], dict[str, Any]]] = []

    @given(pair=st.one_of(pairs(), pairs(), mutations()))
    @settings(max_examples=30, phases=(Phase.generate,), derandomize=True, database=None)
    def draw(pair: tuple[dict[str, Any], dict[str, Any]]) -> None:
        drawn.append(pair)

    draw()
    return drawn


def digests(file: Path, environment: dict[str, str], folder: Path) -> dict[str, str]:
    known = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": str(folder)}
    ended = subprocess.run(
        [sys.executable, "-m", "tests.compiler.compile_batch", str(file)], cwd=folder, env={**known, **environment},
        capture_output=True, text=True, encoding="utf-8", check=False,
    )
    assert ended.returncode == 0, ended.stderr
    found: dict[str, str] = json.loads(ended.stdout)
    return found


@pytest.mark.slow
def test_digests_are_the_same_everywhere(tmp_path: Path) -> None:
    file = tmp_path / "batch.json"
    file.write_text(json.dumps(batch()), encoding="utf-8")
    folders = [ROOT, tmp_path / "ein Ordner ü", tmp_path]
    folders[1].mkdir()
    found = {name: digests(file, environment, folders[number % 3]) for number, (name, environment) in enumerate(PLACES.items())}
    first = found["here"]
    assert len(first) > 60
    for name, other in found.items():
        assert other == first, f"{name}: {sorted(key for key in first if other.get(key) != first[key])}"


@pytest.mark.slow
def test_files_are_the_same_in_another_place(tmp_path: Path) -> None:
    """What cdk8s writes, by the app that its own command line runs, from elsewhere and in another language and zone."""
    written = []
    for number, environment in enumerate(({}, {"PYTHONHASHSEED": "9", "LC_ALL": "C", "TZ": "Pacific/Kiritimati"})):
        folder = tmp_path / str(number)
        folder.mkdir()
        outdir = folder / "out"
        subprocess.run(
            [sys.executable, ROOT / "charts" / "main.py"],
            cwd=folder,
            env={**os.environ, **environment, "CDK8S_OUTDIR": str(outdir)},
            check=True,
            capture_output=True,
        )
        written.append(files(outdir))
    assert written[0] == written[1] == files(ROOT / "dist")
