"""Manifests to files, through cdk8s."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trainwright.cdk8s import write_files

CONFIG: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "digits", "namespace": "training", "labels": {"b": "1", "a": "2"}},
    "immutable": True,
    "data": {"run.json": '{\n  "z": 1,\n  "a": "' + "long " * 60 + '"\n}\n', "flag": "yes"},
}
JOB: dict[str, Any] = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "digits", "namespace": "training"},
    "spec": {
        "parallelism": 2,
        "completions": 2,
        "rate": 2e-5,
        "template": {"spec": {"containers": [{"name": "trainer", "args": []}]}},
    },
}
YAML = f"""\
apiVersion: v1
kind: ConfigMap
metadata:
  name: digits
  namespace: training
  labels:
    b: "1"
    a: "2"
immutable: true
data:
  run.json: |
    {{
      "z": 1,
      "a": "{"long " * 60}"
    }}
  flag: "yes"
---
apiVersion: batch/v1
kind: Job
metadata:
  name: digits
  namespace: training
spec:
  parallelism: 2
  completions: 2
  rate: 0.00002
  template:
    spec:
      containers:
        - name: trainer
          args: []
"""


def thing(name: str, namespace: str = "training", **content: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name, "namespace": namespace}, **content}


def tree(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_keys_and_objects_keep_their_order_and_text_stays_readable(tmp_path: Path) -> None:
    write_files({"laptop/training/runs/digits.k8s.yaml": [CONFIG, JOB]}, tmp_path)
    assert {path: data.decode() for path, data in tree(tmp_path).items()} == {"laptop/training/runs/digits.k8s.yaml": YAML}


def test_many_objects_keep_their_order(tmp_path: Path) -> None:
    write_files({"things.k8s.yaml": [thing(f"t{number}") for number in range(25)]}, tmp_path)
    names = [line.split()[1] for line in (tmp_path / "things.k8s.yaml").read_text().splitlines() if line.startswith("  name: ")]
    assert names == [f"t{number}" for number in range(25)]


def test_many_folders_and_the_longest_name(tmp_path: Path) -> None:
    files = {
        "one/training/foundation/training.k8s.yaml": [thing("a")],
        "one/training/runs/default.k8s.yaml": [thing("b")],
        f"one/training/runs/{'x' * 63}.k8s.yaml": [thing("c")],
        "two/training/runs/0.k8s.yaml": [thing("a")],
        "top.k8s.yaml": [thing("d")],
    }
    write_files(files, tmp_path)
    assert set(tree(tmp_path)) == set(files)


def test_same_bytes_again_and_other_files_stay(tmp_path: Path) -> None:
    (tmp_path / "laptop").mkdir()
    (tmp_path / "laptop" / "notes.txt").write_text("mine")
    write_files({"laptop/a.k8s.yaml": [CONFIG], "laptop/b.k8s.yaml": [JOB]}, tmp_path)
    first = tree(tmp_path)
    write_files({"laptop/b.k8s.yaml": [JOB], "laptop/a.k8s.yaml": [CONFIG]}, tmp_path)
    assert tree(tmp_path) == first
    assert first["laptop/notes.txt"] == b"mine"


def test_no_construct_metadata_where_the_command_line_asks_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDK8S_RECORD_CONSTRUCT_METADATA", "true")
    write_files({"a.k8s.yaml": [JOB]}, tmp_path)
    assert set(tree(tmp_path)) == {"a.k8s.yaml"}


def test_a_relative_folder_is_taken_from_where_python_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_files({"a.k8s.yaml": [JOB]}, Path("out"))
    assert set(tree(tmp_path)) == {"out/a.k8s.yaml"}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"c/a.k8s.yaml": [thing("x")], "c/b.k8s.yaml": [thing("x")]}, "c/b.k8s.yaml: Thing x is in c/a.k8s.yaml already"),
        ({"c/a.k8s.yaml": [thing("x"), thing("x")]}, "c/a.k8s.yaml: Thing x is in c/a.k8s.yaml already"),
        ({"a.k8s.yaml": [thing("x")], "b.k8s.yaml": [thing("x", apiVersion="example.com/v2")]}, "is in a.k8s.yaml already"),
        ({"/a.k8s.yaml": [JOB]}, "relative path"),
        ({"../a.k8s.yaml": [JOB]}, "relative path"),
        ({"c//a.k8s.yaml": [JOB]}, "relative path"),
        ({"c/a.yaml": [JOB]}, "c/a.yaml: a file name"),
        ({"c/A_b.k8s.yaml": [JOB]}, "a file name"),
        ({f"c/{'x' * 64}.k8s.yaml": [JOB]}, "a file name"),
        ({"": [JOB]}, "a file name"),
        ({"c/a.k8s.yaml": []}, "at least one object"),
        ({"c/a.k8s.yaml": [{"apiVersion": "v1", "kind": "Thing"}]}, "c/a.k8s.yaml: object 0 has no /metadata/name"),
        ({"c/a.k8s.yaml": [{"kind": "Thing", "metadata": {"name": "x"}}]}, "object 0 has no /apiVersion"),
        ({"c/a.k8s.yaml": [JOB], "c/b.k8s.yaml": [thing("x", spec={"a": float("nan")})]}, "b.k8s.yaml: Thing x: /spec/a is nan"),
        ({"c/a.k8s.yaml": [thing("x", spec=None)]}, "/spec is null"),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_is(
    files: dict[str, list[dict[str, Any]]], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        write_files(files, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_one_object_may_be_in_two_clusters_and_in_two_namespaces(tmp_path: Path) -> None:
    files = {"one/a.k8s.yaml": [thing("x"), thing("x", "other")], "two/a.k8s.yaml": [thing("x")]}
    write_files(files, tmp_path)
    assert set(tree(tmp_path)) == set(files)


def test_a_folder_in_the_way_is_an_error_of_the_disk(tmp_path: Path) -> None:
    (tmp_path / "a.k8s.yaml").mkdir()
    with pytest.raises(OSError, match=r"cdk8s could not write to .*EISDIR"):
        write_files({"a.k8s.yaml": [JOB]}, tmp_path)


def test_a_file_in_the_way_is_an_error_of_the_disk(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(OSError, match="out"):
        write_files({"a.k8s.yaml": [JOB]}, tmp_path / "out")
