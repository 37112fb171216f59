"""Our own tables, as PyYAML reads them without libyaml, which is stricter about plain text."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import trainwright
from trainwright.reading.rows import read_rows

ROOT = Path(trainwright.__file__).parent
TABLES = sorted([*ROOT.glob("operators/*/*.yaml"), *ROOT.glob("live/*.yaml")])


@pytest.mark.parametrize("path", TABLES, ids=[f"{path.parent.name}/{path.name}" for path in TABLES])
def test_a_table_is_the_same_without_libyaml(path: Path) -> None:
    assert yaml.load(path.read_bytes(), yaml.SafeLoader) == read_rows(path)
