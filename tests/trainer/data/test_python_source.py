from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest

from trainwright_trainer.contract.data import PythonSource
from trainwright_trainer.contract.failures import DataError
from trainwright_trainer.data import python_source
from trainwright_trainer.data.dataset import Array, Split
from trainwright_trainer.data.order import Samples


def source(**keys: object) -> PythonSource:
    return PythonSource.model_validate({"source": "python-stdlib", "sequence_length": 64, "files": 30, **keys})


def column(split: Split, name: str) -> Array:
    everything = np.arange(len(split))
    return split.read(Samples(everything, everything))[name]


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small standard library in its place."""
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    return tmp_path


def test_targets_are_the_next_tokens() -> None:
    data = python_source.load(source())
    inputs, targets = column(data.train, "inputs"), column(data.train, "targets")
    assert inputs.shape == targets.shape
    assert inputs.shape[1] == 64
    assert np.array_equal(inputs.ravel()[1:], targets.ravel()[:-1])


def test_bytes_are_source_text() -> None:
    data = python_source.load(source())
    text = bytes(column(data.train, "inputs").astype(np.uint8).ravel())
    assert text.count(b"import ") > 20
    assert 20 < text.count(b"\0") < 30  # ends of files, some of which are empty or held out


def test_same_data_again() -> None:
    assert python_source.load(source()).fingerprint == python_source.load(source()).fingerprint


@pytest.mark.parametrize("changed", [{"files": 31}, {"sequence_length": 65}, {"held_out": 0.2}])
def test_what_changes_a_sample_changes_the_fingerprint(changed: dict[str, object]) -> None:
    assert python_source.load(source()).fingerprint != python_source.load(source(**changed)).fingerprint


def test_byte_pairs_are_shorter_and_within_the_vocabulary() -> None:
    as_bytes = python_source.load(source())
    as_pairs = python_source.load(source(tokenizer="bpe", vocabulary=512))
    assert len(as_pairs.train) < 0.7 * len(as_bytes.train)
    assert column(as_pairs.train, "inputs").max() < 512
    assert as_pairs.fingerprint == python_source.load(source(tokenizer="bpe", vocabulary=512)).fingerprint


def test_tests_and_installed_packages_are_left_out(library: Path) -> None:
    left_out = ("test/no.py", "site-packages/no.py", "a/__pycache__/no.py", "_sysconfigdata_x.py", "config-3/no.py")
    for name in ("b.py", "a/z.py", *left_out):
        (library / name).parent.mkdir(parents=True, exist_ok=True)
        (library / name).write_text(name)
    (library / "link.py").symlink_to("b.py")
    (library / "text.txt").write_text("no")
    assert python_source._source_files(library, None) == [library / "a/z.py", library / "b.py"]


def test_split_goes_by_content_not_by_name(library: Path) -> None:
    for name in "abcdef":
        (library / f"{name}.py").write_text(f"{name} = 1\n" * 30)
    before = python_source.load(source(sequence_length=8))
    (library / "a.py").rename(library / "z.py")
    after = python_source.load(source(sequence_length=8))
    assert np.array_equal(column(before.held_out, "inputs"), column(after.held_out, "inputs"))


def test_no_sources(library: Path) -> None:
    with pytest.raises(DataError, match="no Python sources under"):
        python_source.load(source())


def test_one_file(library: Path) -> None:
    (library / "only.py").write_text("x = 1\n" * 100)
    with pytest.raises(DataError, match=r"raise data\.files"):
        python_source.load(source())


def test_short_text(library: Path) -> None:
    for name in "ab":
        (library / f"{name}.py").write_text(f"{name} = 1\n")
    with pytest.raises(DataError, match="too few for one sequence of 64"):
        python_source.load(source())


@pytest.mark.skipif(sys.platform == "win32", reason="no permissions")
def test_whole_library_is_large() -> None:
    assert len(python_source.load(source(files=None)).train) > 50_000
