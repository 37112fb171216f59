"""The catalogue is well-formed, and complete where it says so."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from trainwright.variables import Entry, is_made_up, lookup, rows, suggestion
from trainwright.variables.rows import FAMILIES, ROWS, VARIABLES

VERSION = re.compile(r"[0-9]+(\.[0-9]+){1,2}")


def number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def test_each_name_stands_once() -> None:
    assert [name for name, count in Counter(row.name for row in ROWS if isinstance(row, Entry)).items() if count > 1] == []
    for path in sorted(Path(rows.__file__).parent.glob("*.yaml")):
        assert YAML(typ="safe", pure=True).load(path)  # which refuses a key that stands twice in a section


@pytest.mark.parametrize("entry", VARIABLES.values(), ids=lambda entry: entry.name)
def test_a_row_is_well_formed(entry: Entry) -> None:
    assert re.fullmatch(r"[A-Z][A-Za-z0-9_]*", entry.name)
    assert entry.source.startswith("https://")
    assert entry.what
    assert not entry.what.endswith(".")
    assert str(entry.values)
    for version in (entry.since, entry.until):
        assert version is None or VERSION.fullmatch(version)
    if entry.until:
        assert entry.dead
        assert entry.since is None or number(entry.since) < number(entry.until)
    assert not (entry.dead and (entry.deprecated or entry.risk))
    assert not (entry.deprecated and entry.risk)
    assert entry.instead is None or entry.dead or entry.deprecated or entry.risk
    for word in entry.risk.harmless if entry.risk else ():
        assert entry.values.accepts(word), word


def test_no_family_hides_a_row_or_another_family() -> None:
    for entry in VARIABLES.values():
        assert lookup(entry.name) is entry
    stems = [family.stem for family in FAMILIES]
    assert all(lookup(stem) for stem in stems)
    assert len(set(stems)) == len(stems)
    assert not [stem for stem in stems if stem.endswith("_")]


@pytest.mark.parametrize("name", ["NCCL_", "NCCL_NOPE", "TORCH_NCCL_X", "FI_EFA_X", "OMPI_MCA_nope_x", "OMPI_MCA_BTL"])
def test_made_up(name: str) -> None:
    assert is_made_up(name)


@pytest.mark.parametrize(
    "name",
    [
        "NCCL_DEBUG", "OMPI_MCA_btl", "OMPI_MCA_btl_x_y", "I_MPI_X", "FI_X", "TORCH_X", "nccl_debug", "",
        "NCCL_PLUGIN_P2P", "NCCL_INSPECTOR_ENABLE", "NCCL_TESTS_SPLIT_MASK",
    ],
)  # fmt: skip
def test_not_made_up(name: str) -> None:
    assert not is_made_up(name)


def test_nothing_dead_or_internal_is_suggested() -> None:
    assert suggestion("NCCL_TIMEOUTS") != "NCCL_TIMEOUT"
    assert suggestion("NCCL_IB_USE_INLIN") != "NCCL_IB_USE_INLINE"
    assert suggestion("NCCL_ENTIRELY_DIFFERENT") is None


def test_the_names_of_torch_are_those_of_its_headers() -> None:
    torch = pytest.importorskip("torch")
    folder = Path(torch.__file__).parent / "include" / "torch" / "csrc" / "distributed" / "c10d"
    headers = "".join(
        (folder / name).read_text() for name in ("ProcessGroupNCCL.hpp", "FlightRecorder.hpp", "ProcessGroupGloo.hpp")
    )
    names = set(re.findall(r'"((?:TORCH_NCCL|TORCH_FR|NCCL)_[A-Z0-9_]+)"', headers))
    assert names
    assert names - VARIABLES.keys() == set()
