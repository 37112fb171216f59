"""Mount paths are replaced as whole path tokens, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright.rehearsal.stated.volumes import PathRewriter

REWRITE = PathRewriter({"/data": Path("/w/claims/data"), "/data/cache": Path("/w/cache"), "/tmp": Path("/w/tmp")})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/data", "/w/claims/data"),
        ("/data/x.csv", "/w/claims/data/x.csv"),
        ("/data/cache/x", "/w/cache/x"),
        ("/data/cached", "/w/claims/data/cached"),
        ("--from=/data/x --to=/tmp", "--from=/w/claims/data/x --to=/w/tmp"),
        ("/tmp:/data", "/w/tmp:/w/claims/data"),
        ('{"path": "/data"}', '{"path": "/w/claims/data"}'),
        ("file:///data/x", "file:///w/claims/data/x"),
        ("/database", "/database"),
        ("/data-2", "/data-2"),
        ("/mnt/data", "/mnt/data"),
        ("s3://bucket/data", "s3://bucket/data"),
        ("./data", "./data"),
        ("https://example.com/data", "https://example.com/data"),
    ],
)
def test_what_becomes_of_a_text(text: str, expected: str) -> None:
    assert REWRITE(text) == expected


def test_what_was_replaced_is_not_replaced_again() -> None:
    assert PathRewriter({"/a": Path("/b"), "/b": Path("/a")})("/a /b") == "/b /a"


@given(st.text(alphabet="abc .,:=-_"))
def test_text_without_a_mount_path_is_left_alone(text: str) -> None:
    assert REWRITE(text) == text
    assert PathRewriter({})(text) == text
