"""A record reads back as it was written, or not at all."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from trainwright_trainer.checkpoint import CheckpointName, CommitRecord, FileDigest, RecordError, UnknownSchemaError
from trainwright_trainer.checkpoint.record import decode_record, encode_record

NAME = CheckpointName(40, "k7x2")
EMPTY = FileDigest(name="model.safetensors", size=0, chunks=())


def record(**changed: Any) -> CommitRecord:
    values: dict[str, Any] = {
        "identity": "digits-1", "attempt": "k7x2", "step": 40, "samples_consumed": 1280, "world_size": 2,
        "committed_at": datetime(2026, 1, 2, 3, 4, 5, 600, UTC), "files": (EMPTY,),
    }
    return CommitRecord.model_validate(values | changed)


def with_own_digest(body: dict[str, Any]) -> bytes:
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return json.dumps({"record": body, "sha256": hashlib.sha256(text.encode()).hexdigest()}).encode()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(metadata=st.dictionaries(st.text(), json_values, max_size=5))
def test_metadata_survives(metadata: dict[str, Any]) -> None:
    written = record(metadata=metadata)
    assert decode_record(encode_record(written), NAME) == written


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("wrap", [lambda x: x, lambda x: [x], lambda x: {"deep": [x]}])
def test_metadata_that_json_cannot_hold_is_refused(number: float, wrap: Any) -> None:
    with pytest.raises(ValueError, match=r"JSON|finite"):
        encode_record(record(metadata={"loss": wrap(number)}))


def test_every_flipped_bit_is_found_or_harmless() -> None:
    written = record(metadata={"scale": 65536.0, "note": "ä"})
    data = encode_record(written)
    found = 0
    for at in range(len(data)):
        for bit in range(8):
            damaged = data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
            try:
                assert decode_record(damaged, NAME) == written  # such as \u00e4 spelt \u00E4
            except RecordError:
                found += 1
    assert found > len(data) * 8 - 20


def test_every_cut_is_found() -> None:
    data = encode_record(record())
    for length in range(len(data) - 1):  # without its line feed it is still whole
        with pytest.raises(RecordError):
            decode_record(data[:length], NAME)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\0" * 4096, b"[]", b"{}", b'{"record": 1, "sha256": ""}', b"\xff\xfe", b"[" * 100_000,
        b'{"record": {"a": NaN}, "sha256": ""}',
    ],
)
def test_anything_else_is_no_record(data: bytes) -> None:
    with pytest.raises(RecordError):
        decode_record(data, NAME)


def test_wrong_self_digest() -> None:
    outer = json.loads(encode_record(record()))
    outer["record"]["step"] = 41
    with pytest.raises(RecordError, match="sha256"):
        decode_record(json.dumps(outer).encode(), NAME)


def test_the_record_of_another_checkpoint() -> None:
    with pytest.raises(RecordError, match=r"record of step-40\.k7x2"):
        decode_record(encode_record(record()), CheckpointName(50, "k7x2"))


def test_an_intact_record_with_wrong_values() -> None:
    body = json.loads(encode_record(record()))["record"]
    with pytest.raises(RecordError, match="world_size"):
        decode_record(with_own_digest(body | {"world_size": 0}), NAME)


def test_an_intact_record_that_leads_out_of_its_directory() -> None:
    body = json.loads(encode_record(record()))["record"]
    file = {"name": "../../secret", "size": 0, "chunk_bytes": 10, "chunks": []}
    with pytest.raises(RecordError, match="not a checkpoint file name"):
        decode_record(with_own_digest(body | {"files": [file]}), NAME)


def test_a_newer_schema_is_not_damage() -> None:
    body = json.loads(encode_record(record()))["record"]
    with pytest.raises(UnknownSchemaError, match=r"schema version 2.*use the image that wrote it"):
        decode_record(with_own_digest(body | {"schema_version": 2, "new": True}), NAME)


def test_a_file_is_named_once() -> None:
    with pytest.raises(ValidationError, match="named twice"):
        record(files=(EMPTY, EMPTY))
