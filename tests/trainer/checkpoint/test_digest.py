"""Digests do not depend on how the bytes were cut, and find a change in any chunk."""

from __future__ import annotations

from io import FileIO
from pathlib import Path

import pytest
import xxhash
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from trainwright_trainer.checkpoint.digest import ChunkedHash, FileDigest, chunk_matches, digest_of_file


@given(pieces=st.lists(st.binary(max_size=50), max_size=12), chunk_bytes=st.integers(1, 64))
def test_digest_is_of_the_joined_bytes(pieces: list[bytes], chunk_bytes: int) -> None:
    hashed = ChunkedHash(chunk_bytes)
    for piece in pieces:
        hashed.update(memoryview(piece))
    whole = b"".join(pieces)
    expected = tuple(xxhash.xxh3_128_hexdigest(whole[at : at + chunk_bytes]) for at in range(0, len(whole), chunk_bytes))
    assert hashed.digest("a") == FileDigest(name="a", size=len(whole), chunk_bytes=chunk_bytes, chunks=expected)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), whole=st.binary(min_size=1, max_size=300), chunk_bytes=st.integers(1, 64))
def test_only_the_changed_chunk_mismatches(tmp_path: Path, data: st.DataObject, whole: bytes, chunk_bytes: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(whole)
    with FileIO(path) as file:
        digest = digest_of_file(file, "file", chunk_bytes)
        assert all(chunk_matches(file, digest, index) for index in range(len(digest.chunks)))
    at, bit = data.draw(st.integers(0, len(whole) - 1)), data.draw(st.integers(0, 7))
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :])
    with FileIO(path) as file:
        bad = [index for index in range(len(digest.chunks)) if not chunk_matches(file, digest, index)]
    assert bad == [at // chunk_bytes]


def test_a_file_cut_while_it_is_read_does_not_match(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 100)
    with FileIO(path) as file:
        digest = digest_of_file(file, "file", 60)
        path.write_bytes(b"x" * 70)
        assert [chunk_matches(file, digest, 0), chunk_matches(file, digest, 1)] == [True, False]


@pytest.mark.parametrize(("size", "chunks"), [(0, 1), (1, 0), (10, 2), (11, 1), (21, 2)])
def test_chunks_must_cover_the_size(size: int, chunks: int) -> None:
    with pytest.raises(ValidationError, match="bytes need"):
        FileDigest(name="a", size=size, chunk_bytes=10, chunks=("0" * 32,) * chunks)
