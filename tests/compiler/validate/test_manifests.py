"""Files with several documents and lists: each object with the line that it has in its file."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from trainwright.units import literal
from trainwright.validate.manifests import (
    Manifest,
    ambiguous_scalars,
    documents_in,
    files_below,
    is_ambiguous,
    read_by_kubectl,
    read_manifests,
)


def read(tmp_path: Path, text: str) -> tuple[list[Manifest], list[tuple[str, int | None]]]:
    path = tmp_path / "file.yaml"
    path.write_text(text, encoding="utf-8")
    manifests, findings = read_manifests(path)
    return manifests, [(finding.code, finding.where.line) for finding in findings]


def test_documents_keep_their_lines(tmp_path: Path) -> None:
    text = (
        "# first\n---\nkind: A\nspec: {x: 1}\n---\n# nothing\n---\n\nkind: B\nspec:\n  z:\n    - 2\n...\n---  # last\nkind: C\n"
    )
    manifests, findings = read(tmp_path, text)
    assert findings == []
    assert [it.data["kind"] for it in manifests] == ["A", "B", "C"]
    places = [
        (where.line, where.column)
        for where in (it.where(p) for it, p in zip(manifests, ["/spec/x", "/spec/z/0", "/kind"], strict=True))
    ]
    assert places == [(4, 8), (12, 7), (15, 1)]


def test_a_marker_inside_a_text_is_indented_and_no_marker(tmp_path: Path) -> None:
    manifests, findings = read(tmp_path, "kind: A\ntext: |\n  ---\n  more\n--- {kind: B}\n")
    assert findings == []
    assert [it.data["kind"] for it in manifests] == ["A", "B"]
    assert manifests[0].data["text"] == "---\nmore\n"
    assert (manifests[1].where("/kind").line, manifests[1].where("/kind").column) == (5, 6)


def test_a_broken_document_does_not_hide_the_others(tmp_path: Path) -> None:
    manifests, findings = read(tmp_path, "kind: [\n---\nkind: B\n---\n- a list\n---\nkind: D\nkind: E\n")
    assert [it.data["kind"] for it in manifests] == ["B"]
    assert [code for code, _ in findings] == ["TW102", "TW104", "TW103"]
    assert [line for _, line in findings][1:] == [5, 8]


def test_a_list_is_its_items(tmp_path: Path) -> None:
    manifests, findings = read(tmp_path, "apiVersion: v1\nkind: List\nitems:\n- kind: A\n- kind: B\n  spec: {}\n- 5\n")
    assert [(it.data["kind"], it.pointer, it.where("/spec").line) for it in manifests] == [
        ("A", "/items/0", 4),
        ("B", "/items/1", 6),
    ]
    assert findings == [("TW709", 7)]


@pytest.mark.parametrize("text", ["", "---\n", "# only a comment\n", "%YAML 1.2\n---\n...\n"])
def test_a_file_without_objects(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text) == ([], [])


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    for name in ("missing.yaml", "binary.yaml"):
        manifests, findings = read_manifests(tmp_path / name)
        assert (manifests, [finding.code for finding in findings]) == ([], ["TW101"])


def test_folders_are_their_yaml_and_json_files(tmp_path: Path) -> None:
    for name in ("b.yaml", "a/c.yml", "a/d.json", "e.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    assert [path.relative_to(tmp_path).as_posix() for path in files_below([tmp_path, tmp_path / "b.yaml"])] == [
        "a/c.yml",
        "a/d.json",
        "b.yaml",
    ]
    assert list(files_below([tmp_path / "e.txt"])) == [tmp_path / "e.txt"], "a file that is named is read"


@given(st.text(alphabet="ab:{}-.# \n'\"|%&*", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    for part in documents_in(text):
        assert part.strip()
        assert part.count("\n") <= text.count("\n") + 1


@pytest.mark.parametrize(
    ("scalar", "meaning"),
    [
        ("yes", "true"), ("On", "true"), ("y", "true"), ("no", "false"), ("OFF", "false"), ("n", "false"), ("0644", "420"),
        ("-017", "-15"), ("0b101", "5"), ("0O17", "15"), ("-0x1f", "-31"), ("1_000", "1000"), ("2026_01", "202601"),
        ("1_0.5", "10.5"), ("0x_1F", "31"), ("0", None), ("00", None), ("644", None), ("0o644", None),
        ("0x1F", None), ("089", None), ("yEs", None),
        ("true", None), ("a_1", None), ("1:30", None), ("2026-01-01", None), ("_1", None), ("1e3", None), ("-.5", None),
        ("+1", None),
    ],
)  # fmt: skip
def test_scalars_that_kubectl_reads_otherwise(scalar: str, meaning: str | None) -> None:
    assert (literal(read_by_kubectl(scalar)) if is_ambiguous(scalar) else None) == meaning
    findings = list(ambiguous_scalars(f"a:\n  - {scalar}\n", "x.yaml"))
    assert [(finding.code, finding.where.line, finding.where.column) for finding in findings] == (
        [("TW712", 2, 5)] if meaning else []
    )


@given(st.text(alphabet="0123456789_xXoObBeE.+-ynNoOfFsS", min_size=1, max_size=8))
def test_no_such_scalar_is_overlooked(scalar: str) -> None:
    """The quick look at the text finds whatever the slow one would."""
    assume(scalar != "-")  # a list item, not a scalar
    assert bool(list(ambiguous_scalars(f"[{scalar}]", "x.yaml"))) == is_ambiguous(scalar)


@pytest.mark.parametrize("text", ['a: "yes"', "a: 'on'", "a: |\n  yes\n", "a: yes it is", "a: x.on", "# no"])
def test_scalars_that_everyone_reads_alike(text: str) -> None:
    assert list(ambiguous_scalars(text, "x.yaml")) == []


PLACES = (
    "a: {}", "{{a: {}}}", "{{a: [1, {}]}}", '{{"a":{}}}', "- {}", "? {}", "a: {} # why", "a:\n  {}\n", "{}:\n- 1", "{{{}: 1}}",
    "&x {}", "# a\n[{}]", "--- {}", "a: |\n  # b\nc: {}",
)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("scalar", ["yes", "0644", "1_0"])
def test_no_place_of_such_a_scalar_is_overlooked(scalar: str, place: str) -> None:
    assert list(ambiguous_scalars(place.format(scalar), "x.yaml"))


def test_keys_count_too() -> None:
    assert [finding.where.line for finding in ambiguous_scalars("a: 1\non: 2\n", "x.yaml")] == [2]
