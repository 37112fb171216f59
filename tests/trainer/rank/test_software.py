"""Versions of what must be the same in every pod."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from trainwright_trainer.rank import software

VERSIONS = st.dictionaries(st.sampled_from(software.PACKAGES), st.sampled_from(["1.0", "1.0+cpu", "2.0"]))
OURS = {"torch": "2.13.0+cu130", "deepspeed": "0.19.8", "transformers": "5.23.0"}


def test_what_is_installed_is_read_and_not_imported(tmp_path: Path) -> None:
    metadata = tmp_path / "horovod-0.0.1.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: horovod\nVersion: 0.0.1\n")
    code = (
        f"import json, sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from trainwright_trainer import software\n"
        "print(json.dumps([software.installed(), sorted(set(sys.modules) & {'torch', 'transformers'})]))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    versions, imported = json.loads(found.stdout)
    assert torch.__version__.startswith(versions["torch"])  # a wheel of the package index does not name its build there
    assert versions["horovod"] == "0.0.1"
    assert set(versions) <= set(software.PACKAGES)
    assert imported == []


@pytest.mark.parametrize(("theirs", "sentence"), [
    (OURS, None),
    ({**OURS, "torch": "2.13.0+cu126"}, "torch 2.13.0+cu126 and 2.13.0+cu130"),
    ({"torch": "2.12.0", "transformers": "5.23.0"}, "torch 2.12.0 and 2.13.0+cu130, deepspeed not at all and 0.19.8"),
    ({**OURS, "ray": "2.60.0"}, "ray 2.60.0 and not at all"),
])
def test_differences(theirs: dict[str, str], sentence: str | None) -> None:
    assert software.difference(theirs, OURS) == sentence


@given(VERSIONS, VERSIONS)
def test_only_the_same_is_no_difference(theirs: dict[str, str], ours: dict[str, str]) -> None:
    assert (software.difference(theirs, ours) is None) == (theirs == ours)
