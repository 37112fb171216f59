"""String formats and quantities, as the API server reads them."""

from __future__ import annotations

from decimal import Decimal

import pytest

from trainwright.objects.formats import FORMATS, amount, normal
from trainwright.objects.metadata import not_a_label, not_a_service_label, not_a_subdomain, not_qualified

CASES: dict[str, tuple[list[str], list[str]]] = {
    "bsonobjectid": (["507f1f77bcf86cd799439011"], ["507f"]),
    "uri": (["https://a/b", "s3://b/k", "/path"], ["a b", "path"]),
    "email": (["a@b.c", "A <a@b.c>"], ["a", "a@", "@b"]),
    "hostname": (["a.example.com", "1a"], ["-a", "a_b", "a..b", "a" * 300]),
    "ipv4": (["10.0.0.1"], ["10.0.0", "::1"]),
    "ipv6": (["::1"], ["10.0.0.1", ":"]),
    "cidr": (["10.0.0.0/8", "10.0.0.1/8", "::/0"], ["10.0.0.0", "10.0.0.0/33"]),
    "mac": (["01:23:45:67:89:ab", "0123.4567.89ab"], ["01:23:45", "01:23:45:67:89:zz"]),
    "uuid": (["123E4567-e89b-12d3-a456-426614174000"], ["123e4567"]),
    "uuid4": (["123e4567-e89b-42d3-a456-426614174000"], ["123e4567-e89b-12d3-a456-426614174000"]),
    "ssn": (["123-45-6789"], ["123"]),
    "hexcolor": (["#fff", "a0b1c2"], ["#ffff"]),
    "byte": (["YWI="], ["", "a", "a b"]),
    "password": (["anything"], []),
    "date": (["2026-02-28"], ["2026-02-30", "2026-2-28", "today"]),
    "duration": (["1h30m", "22 ns", "5 days", "0", "-1.5s"], ["1 fortnight", "h", ""]),
    "date-time": (
        ["2026-01-01T10:00:00Z", "2026-01-01t10:00:00.5+01:00"],
        ["2026-01-01", "2026-01-01T24:00:00Z", "2026-01-01T10:00Z"],
    ),
    "quantity": (["8Gi", "500m", "1e3", ".5", "-1"], ["8GiB", "", "1 G", "m"]),
    "k8s-short-name": (["a-b"], ["a.b", "A"]),
    "k8s-long-name": (["a.b"], ["a..b"]),
}


@pytest.mark.parametrize("name", CASES)
def test_a_format(name: str) -> None:
    good, bad = CASES[name]
    assert [text for text in good if not FORMATS[normal(name)](text)] == []
    assert [text for text in bad if FORMATS[normal(name)](text)] == []


def test_every_format_has_a_case() -> None:
    assert FORMATS.keys() - {normal(name) for name in CASES} == {"uuid3", "uuid5"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1", 1), ("500m", Decimal("0.5")), ("1Ki", 1024), ("2k", 2000), ("1e3", 1000), (2, 2), ("1.5Gi", Decimal(1610612736)),
     ("", None), ("1KiB", None), (True, None), (None, None), (["1"], None)],
)  # fmt: skip
def test_amounts(text: object, expected: object) -> None:
    assert amount(text) == expected


def test_names() -> None:
    assert not any((not_a_label("0-a"), not_a_service_label("a-0"), not_a_subdomain("a.0"), not_qualified("example.com/A_b.c")))
    for reason in (
        not_a_label("a."),
        not_a_label("a" * 64),
        not_a_service_label("0a"),
        not_a_subdomain("a_b"),
        not_a_subdomain("a" * 254),
        not_qualified("/a"),
        not_qualified("a/b/c"),
        not_qualified("x" * 64),
        not_qualified(""),
        not_a_label("a\n"),
    ):
        assert reason
