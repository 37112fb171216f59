"""The lock: written, read back, and refused where it is none."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.compiler.strategies import labels

from trainwright.findings import CompileError
from trainwright.project.lock import Lock, LockedFoundation, LockedRun, digest, lock_text, manifests_digest, read_lock
from trainwright.reading.document import parse_yaml

DIGESTS = st.one_of(
    st.text("0123456789abcdef", min_size=32, max_size=32),
    st.sampled_from(
        (
            "12345678901234567890123456789012",
            "1234e567890123456789012345678901",
            "00000000000000000000000000000000",
            "0x12",
            "1e5",
            "",
        )
    ),
)
NAMES = st.one_of(labels(40), st.sampled_from(("true", "false", "null", "n", "y", "no", "e1", "inf")))
RUNS = st.dictionaries(
    NAMES,
    st.builds(LockedRun, file=DIGESTS, hash=DIGESTS, state=st.sampled_from(("active", "done")), manifests=DIGESTS, dist=DIGESTS),
    max_size=4,
)
FOUNDATIONS = st.dictionaries(
    st.builds(lambda cluster, namespace: f"{cluster}/{namespace}", labels(63), labels(63)),
    st.builds(LockedFoundation, manifests=DIGESTS, dist=DIGESTS), max_size=3,
)


@given(runs=RUNS, foundations=FOUNDATIONS)
def test_what_is_written_is_read_back(runs: dict[str, LockedRun], foundations: dict[str, LockedFoundation]) -> None:
    lock = Lock(runs=runs, foundations=foundations)
    read = Lock.model_validate(parse_yaml(lock_text(lock), "lock").data)
    assert read == lock
    assert lock_text(read) == lock_text(lock)


def test_one_line_an_entry_in_name_order(tmp_path: Path) -> None:
    entry = LockedRun(file="f", hash="h", manifests="m", dist="d")
    text = lock_text(Lock(runs={"b": entry, "a": entry}))
    assert [line.split(":")[0].strip() for line in text.splitlines()[-2:]] == ["a", "b"]
    (tmp_path / "lock").write_text(text, encoding="utf-8")
    assert list(read_lock(tmp_path / "lock").runs) == ["a", "b"]


def test_no_lock_is_an_empty_one(tmp_path: Path) -> None:
    assert read_lock(tmp_path / "none") == Lock()


CONFLICT = """\
lock: 1
foundations: {}
runs:
<<<<<<< HEAD
  a: {file: "1", hash: "2", state: "active", manifests: "3", dist: "4"}
=======
  a: {file: "5", hash: "6", state: "active", manifests: "7", dist: "8"}
>>>>>>> branch
"""


@pytest.mark.parametrize(
    "text",
    [
        CONFLICT,
        "",
        "lock: 2\n",
        "lock: 1\nruns: []\n",
        "lock: 1\nruns: {a: {}}\n",
        "\x00",
        "[",
        "runs: {a: {file: 1, hash: x}}\n",
    ],
    ids=["conflict", "empty", "version", "list", "entry", "control", "bracket", "number"],
)
def test_what_is_no_lock_is_one_finding(text: str, tmp_path: Path) -> None:
    (tmp_path / "lock").write_text(text, encoding="utf-8")
    with pytest.raises(CompileError) as caught:
        read_lock(tmp_path / "lock")
    (finding,) = caught.value.findings
    assert finding.code == "TW506"
    assert "trainwright synth" in finding.fix
    assert str(tmp_path / "lock") in str(finding.where)


def test_the_line_of_a_merge_conflict_is_named(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text(CONFLICT, encoding="utf-8")
    with pytest.raises(CompileError) as caught:
        read_lock(tmp_path / "lock")
    assert caught.value.findings[0].where.line in (4, 5)


def test_digests_see_every_byte_and_the_order_of_keys() -> None:
    assert digest(b"a") != digest(b"b")
    assert len(digest(b"")) == 32
    assert manifests_digest([{"a": 1, "b": 2}]) != manifests_digest([{"b": 2, "a": 1}])
    assert manifests_digest([{"a": "1"}]) != manifests_digest([{"a": 1}])
