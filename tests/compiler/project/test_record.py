"""Records: written, read back, and refused where they are none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright.findings import CompileError
from trainwright.project.record import (
    AnyRecord,
    ClusterRecord,
    FoundationRecord,
    Records,
    Releases,
    RunRecord,
    as_written,
    digest,
    manifests_digest,
    read_record,
    read_records,
    record_text,
)
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
ASCII = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=40)
FACTS = st.dictionaries(
    st.one_of(ASCII, st.sampled_from(("true", "null", "n", "y", "1", "1e5", "", "-", "a b", "batch.micro"))),
    st.one_of(ASCII, st.booleans(), st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False, width=32)),
    max_size=6,
)
RELEASES = st.none() | st.builds(Releases, trainwright=DIGESTS, cdk8s=DIGESTS, jsii=DIGESTS)
RECORDS = st.one_of(
    st.builds(RunRecord, state=st.sampled_from(("active", "done")), identity=DIGESTS, file=DIGESTS, manifests=DIGESTS,
              dist=DIGESTS, written_by=RELEASES, facts=FACTS),
    st.builds(FoundationRecord, manifests=DIGESTS, dist=DIGESTS, written_by=RELEASES),
    st.builds(ClusterRecord, profile=FACTS),
)


@given(record=RECORDS)
def test_what_is_written_is_read_back(record: AnyRecord) -> None:
    text = record_text(record)
    assert text.isascii()
    read = type(record).model_validate(parse_yaml(text, "record").data, strict=True)
    assert read == record
    assert record_text(read) == text


@given(record=RECORDS)
def test_what_is_written_needs_no_parser_of_yaml(record: AnyRecord) -> None:
    """And a text that says the same in other bytes, or something else, is left to one."""
    text = record_text(record)
    model: Any = type(record)
    assert as_written(model, text) == record
    version = "record: 1\n"
    for other in (f"{text}# by hand\n", text.replace(version, "record:  1\n"), text.partition(version)[2], f"{text}{version}"):
        assert as_written(model, other) is None


def test_one_fact_a_line_in_the_order_of_their_keys() -> None:
    record = RunRecord(identity="h", file="f", facts={"b": 1, "batch.micro": 2, "a": "x"})
    assert record_text(record).splitlines()[-4:] == ["facts:", '  a: "x"', "  b: 1", "  batch.micro: 2"]


def test_no_folder_is_no_records(tmp_path: Path) -> None:
    assert read_records(tmp_path / "none", str) == Records()


def test_each_file_is_found_by_its_path(tmp_path: Path) -> None:
    run, foundation, cluster = RunRecord(identity="i", file="f"), FoundationRecord(manifests="m", dist="d"), ClusterRecord()
    records = Records(
        {"clusters": run, "foundation": run, "a": run}, {"lab/training": foundation, "clusters/b": foundation}, {"lab": cluster}
    )
    for path, record in records.paths.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(record_text(record), encoding="utf-8")
    assert read_records(tmp_path, str) == records


CONFLICT = """\
record: 1
state: "active"
<<<<<<< HEAD
identity: "g5jypzxm"
=======
identity: "1aqa1h4p"
>>>>>>> branch
file: "27911a052e9b30a7e2643ff7fb11a924"
"""


@pytest.mark.parametrize(
    "text",
    [
        CONFLICT,
        "",
        'record: 2\nidentity: "a"\nfile: "b"\n',
        'identity: []\nfile: "b"\n',
        'identity: "a"\n',
        "\x00",
        "[",
        'identity: 1\nfile: "x"\n',
        'identity: "a"\nfile: "b"\nfacts: {a: {b: c}}\n',
    ],
    ids=["conflict", "empty", "version", "list", "missing", "control", "bracket", "number", "nested"],
)
def test_what_is_no_record_is_one_finding(text: str, tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CompileError) as caught:
        read_record(RunRecord, path, "charts/lock/run.yaml")
    (finding,) = caught.value.findings
    assert finding.code == "TW506"
    assert "trainwright synth" in finding.fix
    assert "charts/lock/run.yaml" in str(finding.where)
    assert read_records(tmp_path, str).broken.keys() == {"run.yaml"}


def test_the_line_of_a_merge_conflict_is_named(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(CONFLICT, encoding="utf-8")
    with pytest.raises(CompileError) as caught:
        read_record(RunRecord, tmp_path / "run.yaml", "charts/lock/run.yaml")
    (finding,) = caught.value.findings
    assert finding.where.line in (3, 4)
    assert "merge conflict" in finding.message


def test_digests_see_every_byte_and_the_order_of_keys() -> None:
    assert digest(b"a") != digest(b"b")
    assert len(digest(b"")) == 32
    assert manifests_digest([{"a": 1, "b": 2}]) != manifests_digest([{"b": 2, "a": 1}])
    assert manifests_digest([{"a": "1"}]) != manifests_digest([{"a": 1}])
