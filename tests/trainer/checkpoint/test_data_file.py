"""Digests do not depend on how the bytes were cut, and find a change in any chunk."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from trainwright_trainer.checkpoint.data_file import ChunkedHash, FileDigest, chunk_matches, chunk_span


@given(pieces=st.lists(st.binary(max_size=50), max_size=12), chunk_bytes=st.integers(1, 64))
def test_digest_is_of_the_joined_bytes(pieces: list[bytes], chunk_bytes: int) -> None:
    hashed = ChunkedHash(chunk_bytes)
    for piece in pieces:
        hashed.update(memoryview(piece))
    whole = b"".join(pieces)
    expected = tuple(xxhash.xxh3_128_hexdigest(whole[at : at + chunk_bytes]) for at in range(0, len(whole), chunk_bytes))
    assert hashed.digest("a") == FileDigest(name="a", size=len(whole), chunk_bytes=chunk_bytes, chunks=expected)


def digest_of(whole: bytes, chunk_bytes: int) -> FileDigest:
    hashed = ChunkedHash(chunk_bytes)
    hashed.update(memoryview(whole))
    return hashed.digest("file")


def bad_chunks(whole: bytes, digest: FileDigest, piece: int) -> list[int]:
    def pieces(start: int, length: int) -> Iterator[memoryview]:
        for at in range(start, start + length, piece):
            yield memoryview(whole[at : min(at + piece, start + length)])

    return [at for at in range(len(digest.chunks)) if not chunk_matches(pieces(*chunk_span(digest, at)), digest, at)]


@given(data=st.data(), whole=st.binary(min_size=1, max_size=300), chunk_bytes=st.integers(1, 64), piece=st.integers(1, 70))
def test_only_the_changed_chunk_mismatches(data: st.DataObject, whole: bytes, chunk_bytes: int, piece: int) -> None:
    digest = digest_of(whole, chunk_bytes)
    assert bad_chunks(whole, digest, piece) == []
    at, bit = data.draw(st.integers(0, len(whole) - 1)), data.draw(st.integers(0, 7))
    changed = whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :]
    assert bad_chunks(changed, digest, piece) == [at // chunk_bytes]


def test_a_file_cut_while_it_is_read_does_not_match() -> None:
    digest = digest_of(b"x" * 100, 60)
    assert bad_chunks(b"x" * 70, digest, 50) == [1]


@pytest.mark.parametrize(("size", "chunks"), [(0, 1), (1, 0), (10, 2), (11, 1), (21, 2)])
def test_chunks_must_cover_the_size(size: int, chunks: int) -> None:
    with pytest.raises(ValidationError, match="bytes need"):
        FileDigest(name="a", size=size, chunk_bytes=10, chunks=("0" * 32,) * chunks)
