"""YAML 1.2 with positions; nothing but findings for a file that is not."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from trainwright.findings import CompileError, Finding, Severity
from trainwright.findings.locate import escape
from trainwright.reading.document import Document, parse_yaml, read_yaml


def refused(text: str) -> tuple[Finding, ...]:
    with pytest.raises(CompileError) as error:
        parse_yaml(text, "f.yaml")
    return error.value.findings


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("null", None), ("~", None), ("", None), ("Null", None), ("true", True), ("False", False), ("TRUE", True),
        ("yes", "yes"), ("no", "no"), ("on", "on"), ("off", "off"), ("y", "y"), ("tRUE", "tRUE"),
        ("12", 12), ("-5", -5), ("+5", 5), ("0o17", 15), ("0x1F", 31), ("1_000", "1_000"),
        ("-0x5", "-0x5"), ("017a", "017a"),
        ("2e-5", 2e-5), ("2E5", 2e5), ("1.", 1.0), (".5", 0.5), ("-1.5e+3", -1500.0), ("1e3", 1000.0), (".", "."), ("e5", "e5"),
        ("2026-03-31", "2026-03-31"), ("1:30", "1:30"), ("12:30:45", "12:30:45"), ("=", "="), ("0b11", "0b11"),
        ("'12'", "12"), ('"true"', "true"), ("9007199254740992", 2**53), ("-9007199254740992", -(2**53)), ("١٢", "١٢"),
        (r'"\u00e9\n"', "é\n"), ("registry/a@sha256:0", "registry/a@sha256:0"),
    ],
)
def test_scalars_by_the_core_schema(written: str, value: object) -> None:
    parsed = parse_yaml(f"a: {written}\n", "f.yaml").data["a"]
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("text", "code", "line", "column", "message", "fix"),
    [
        ("a: b: c", "TW102", 1, 5, "cannot stand here", "quotes"),
        ("a:\n\t- b", "TW102", 2, 1, "a tab stands here", "spaces, not tabs"),
        ("a: @x", "TW102", 1, 4, "begin with @", "quotes"),
        ("a: 'x", "TW102", 1, 6, "file ends inside", "close the quotes"),
        ("ok: 1\na: *nope", "TW102", 2, 4, "*nope", "write the value out"),
        ("ok: 1\na: \x01", "TW102", 2, 4, "control character", "remove"),
        ('ok: 1\na: "\\Uffffffff"', "TW102", 2, 2, "cannot be parsed", "escapes"),
        ("a: 1\nb: 2\na: 3", "TW103", 3, 1, "`a` is already on line 1", "that on line 1, or that on line 3"),
        ("a: !!str 5", "TW104", 1, 4, "tag", "remove the tag"),
        ("a: !Env X", "TW104", 1, 4, "!Env", "remove the tag"),
        ("a: ! x", "TW104", 1, 4, "tag", "remove the tag"),
        ("b: 1\n5: x", "TW104", 2, 1, "5 is not", '"5" in quotes'),
        ("true: x", "TW104", 1, 1, "true is not", '"true"'),
        ("? [a]\n: b", "TW104", 1, 3, "list or mapping", "key: value"),
        ("a: &a {b: 1}\nc:\n  <<: *a", "TW104", 3, 3, "merge keys", "write the keys out"),
        ("a: 1\n---\nb: 1", "TW104", 2, 1, "second document", "---"),
        ("%YAML 1.1\n---\na: yes", "TW104", 2, 1, "another version", "%YAML"),
        ("", "TW104", 1, 1, "empty", "key: value"),
        ("# only this\n", "TW104", 1, 1, "empty", "key: value"),
        ("---\n", "TW104", 1, 1, "empty", "key: value"),
        ("- a", "TW104", 1, 1, "a list", "key: value"),
        ("just text", "TW104", 1, 1, "single value", "key: value"),
        ("a: &a [*a]", "TW104", 1, 4, "inside the value", "write the value out"),
        (r'a: "\ud800"', "TW104", 1, 4, "surrogate", "character itself"),
        ("a: [1, .nan]", "TW107", 1, 8, ".nan is not a finite number", "finite"),
        ("a: 0400", "TW107", 1, 4, "0400 is decimal in YAML 1.2, and octal to kubectl", 'write "0400" in quotes'),
        ("a: [1, 08]", "TW107", 1, 8, "08 is decimal", 'write "08" in quotes'),
        ("a: -.inf", "TW107", 1, 4, "-.inf", "finite"),
        ("a: 1e999", "TW107", 1, 4, "too large", "finite"),
        ("a: 9007199254740993", "TW107", 1, 4, "larger than 2^53", "quotes"),
        ("a: " + "9" * 5000, "TW107", 1, 4, "larger than 2^53", "quotes"),
    ],
)
def test_refused(text: str, code: str, line: int, column: int, message: str, fix: str) -> None:
    (finding,) = refused(text)
    assert (finding.code, finding.severity) == (code, Severity.ERROR)
    assert (finding.where.file, finding.where.line, finding.where.column) == ("f.yaml", line, column)
    assert message in finding.message
    assert fix in finding.fix


def test_every_problem_is_named_at_once() -> None:
    findings = refused("a: .nan\na: 2\n7: x\nb: !x 1\n")
    assert [(finding.code, finding.where.line) for finding in sorted(findings, key=lambda f: f.where.line or 0)] == [
        ("TW107", 1), ("TW103", 2), ("TW104", 3), ("TW104", 4),
    ]


def test_positions() -> None:
    document = parse_yaml("# head\na: 1\nlist:\n  - x\n  - {k: v}\n/data/~x: {b: 2}\n", "f.yaml")
    assert document.positions == {
        "": (2, 1), "/a": (2, 1), "/list": (3, 1), "/list/0": (4, 5), "/list/1": (5, 5), "/list/1/k": (5, 6),
        "/~1data~1~0x": (6, 1), "/~1data~1~0x/b": (6, 12),
    }
    where = document.where("/list/1/missing/below")
    assert (where.line, where.column, where.pointer) == (5, 5, "/list/1/missing/below")


def test_an_alias_is_a_copy_that_knows_its_line() -> None:
    document = parse_yaml("a: &x {k: [1]}\nb: *x\n", "f.yaml")
    assert document.data == {"a": {"k": [1]}, "b": {"k": [1]}}
    assert document.data["a"] is not document.data["b"]
    assert document.positions["/b"] == (2, 1)
    assert document.positions["/b/k/0"] == (1, 12)


BOMB = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n" + "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[" * 50_000, id="lists"),
        pytest.param("{" * 50_000, id="mappings"),
        pytest.param("a: {" + "x: {" * 50_000, id="mappings in mappings"),
        pytest.param("- " * 50_000, id="block lists"),
        pytest.param("? " * 50_000, id="keys"),
        pytest.param("a: " + "[" * 70 + "]" * 70, id="deep"),
        pytest.param(BOMB, id="alias bomb"),
        pytest.param("a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 80)), id="deep aliases"),
        pytest.param("\n".join(f"k{n}: v" for n in range(15_000)), id="many values"),
        pytest.param("!" * 100_000 + " x", id="tag"),
        pytest.param("&" + "a" * 100_000, id="anchor"),
        pytest.param("a: \"" + "b c\n" * 200_000, id="a quote without its end"),
        pytest.param("7: x\n" * 5_000, id="many errors"),
    ],
)
def test_a_hostile_file_ends_soon_and_with_short_messages(text: str) -> None:
    started = time.process_time()
    findings = refused(text)
    assert time.process_time() - started < 3, "a second at most on an idle machine"
    assert len(findings) <= 50
    assert all(len(finding.message) <= 240 and len(finding.fix) <= 240 for finding in findings)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a: \xff\xfe", "not UTF-8"), ("a: 1".encode("utf-16"), "not UTF-8"), (b"a: " + b"x" * 2**20, "larger than 1 MiB"),
    ],
)
def test_unreadable_content(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(content)
    with pytest.raises(CompileError) as error:
        read_yaml(path, "shown.yaml")
    (finding,) = error.value.findings
    assert finding.code == "TW101"
    assert finding.where.file == "shown.yaml"
    assert message in finding.message


def test_unreadable_paths(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "missing.yaml", tmp_path / "pipe", tmp_path / "a\0b", tmp_path / ("x" * 300)):
        with pytest.raises(CompileError) as error:
            read_yaml(path)
        assert [finding.code for finding in error.value.findings] == ["TW101"]


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes("\ufeffa: é\r\nb: 2\r\n".encode())
    assert read_yaml(path).data == {"a": "é", "b": 2}


FUZZ = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])


def _attempt(read: Callable[[], Document]) -> tuple[Document | None, tuple[Finding, ...]]:
    try:
        return read(), ()
    except CompileError as error:
        return None, error.findings


def _document_or_findings(text: str) -> None:
    document, findings = _attempt(lambda: parse_yaml(text, "f.yaml"))
    if document:
        _assert_plain(document)
    else:
        assert findings
        assert all(finding.fix and (finding.where.line or 0) >= 1 for finding in findings)


def _assert_plain(document: Document) -> None:
    json.dumps(document.data, allow_nan=False).encode()
    for pointer in _pointers(document.data, ""):
        assert pointer in document.positions


def _pointers(value: Any, pointer: str) -> list[str]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [pointer, *(below for key, item in items for below in _pointers(item, f"{pointer}/{escape(str(key))}"))]


@FUZZ
@given(st.text(max_size=200) | st.text(st.sampled_from("ab:-?{}[],&*!|>'\"%@`#\n\t \\u0~<.1e+"), max_size=60))
def test_any_text_is_a_document_or_findings(text: str) -> None:
    _document_or_findings(text)


@FUZZ
@given(st.binary(max_size=200))
def test_any_bytes_are_a_document_or_findings(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(content)
    document, findings = _attempt(lambda: read_yaml(path))
    if document:
        _assert_plain(document)
    else:
        assert findings
        assert {finding.code for finding in findings} <= {"TW101", "TW102", "TW103", "TW104", "TW107"}


NUMBERS = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | NUMBERS | st.text(max_size=20)
WORDS = st.text(st.characters(codec="ascii", categories=["L", "N", "P"]), min_size=1, max_size=8)
TREES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4), max_leaves=12
)


@FUZZ
@given(st.dictionaries(st.text(max_size=8), TREES, min_size=1, max_size=4))
def test_json_is_read_as_json(tree: dict[str, Any]) -> None:
    """Every JSON text is YAML 1.2."""
    text = json.dumps(tree, ensure_ascii=False)
    if all(char.isprintable() or char in "\n\t" for char in text):
        assert parse_yaml(text, "f.yaml").data == tree


@FUZZ
@given(st.dictionaries(WORDS, TREES, min_size=1, max_size=4))
def test_what_a_writer_of_yaml_makes_is_read_back_or_refused(tmp_path: Path, tree: dict[str, Any]) -> None:
    path = tmp_path / "f.yaml"
    yaml = YAML(typ="safe", pure=True)
    with path.open("w", encoding="utf-8", newline="") as stream:
        try:
            yaml.dump(tree, stream)
        except UnicodeEncodeError:
            return
    _document_or_findings(path.read_bytes().decode())
