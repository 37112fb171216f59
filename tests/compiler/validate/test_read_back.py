"""Files that say what was written, and files that do not."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from tests.compiler.compiling import TODAY
from tests.compiler.projects import ROOT

from trainwright.manifest.plain import problems
from trainwright.project.build import build_project
from trainwright.project.load import Project, load_sources
from trainwright.validate.read_back import differences

SENTENCE = "You are a helpful assistant that answers questions."


def thing(spec: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "thing"}, "spec": spec}


def text(spec: str) -> str:
    return f"apiVersion: example.com/v1\nkind: Thing\nmetadata:\n  name: thing\nspec: {spec}\n"


def test_every_file_of_dist_reads_as_what_its_run_compiles_to() -> None:
    project = Project(ROOT)
    outputs = build_project(load_sources(project), TODAY).outputs
    assert len(outputs) > 20
    for path, output in outputs.items():
        assert not list(differences((project.dist / path).read_text(encoding="utf-8"), output.manifests)), path


@pytest.mark.parametrize(
    ("spec", "value"),
    [
        ("1", 1), ("1", 1.0), ("0.00002", 2e-5), ("yes-no", "yes-no"), ("true", True), ('"true"', "true"), ("[]", []), ("{}", {}),
        ('"1"', "1"), ("[null, a]", [None, "a"]), ("|-\n  a\n\n  b", "a\n\nb"), ('{"on": 1}', {"on": 1}), ("''", ""),
    ],
)  # fmt: skip
def test_what_reads_as_it_is(spec: str, value: object) -> None:
    assert list(differences(text(spec), [thing(value)])) == []


@pytest.mark.parametrize(
    ("spec", "value", "pointer"),
    [
        ("1", "1", "/spec"),
        ('"1"', 1, "/spec"),
        ("1", True, "/spec"),
        ("yes", "yes", "/spec"),  # true to kubectl
        ("0o17", "0o17", "/spec"),
        ("010", 10, "/spec"),  # 8 to kubectl
        ("a", None, "/spec"),
        ("{a: [1, 2]}", {"a": [1, 3]}, "/spec/a/1"),
        ("{a/b: x}", {"a/b": "y"}, "/spec/a~1b"),
        ("[1]", [1, 2], "/spec"),
        ("{a: 1, a: 1}", {"a": 1}, "/spec"),
        ("{on: 1}", {"on": 1}, "/spec"),
        ("{a: 1}", {"b": 1}, "/spec"),
        ("[a]", {"a": 1}, "/spec"),
        ("&x a", "b", "/spec"),
        ('"a\n\n  \\\\ b"', "a\n b", "/spec"),
    ],
)
def test_what_reads_as_something_else_is_named(spec: str, value: object, pointer: str) -> None:
    assert list(differences(text(spec), [thing(value)])) == [(0, pointer)]


@pytest.mark.parametrize("whole", ["", "spec: [", text("1") + "---\n" + text("1"), "- a\n", "\0"])
def test_what_holds_no_such_object(whole: str) -> None:
    assert list(differences(whole, [thing(1)])) == [(0, "")]


def test_the_compiler_refuses_exactly_the_texts_that_cdk8s_damages(tmp_path: Path) -> None:
    from trainwright.cdk8s.node import prepare_node

    prepare_node()
    from cdk8s import Yaml

    parts = ["".join(letters) for length in range(5) for letters in itertools.product(" \n\ta", repeat=length)]
    ends = ("", "\n  ", "\n\t", "\x1b", " \n \n ")
    texts = [f"{SENTENCE}{part}{end}" for part in parts for end in ends] + [f"{part}{end}" for part in parts for end in ends]
    texts += [f"{'é' * count}😀\n \nb\n " for count in range(24, 36)]  # about the length from which on text is folded
    wrong = [[reason for _, reason in problems(one)] for one in texts]
    accepted = {f"key{number}": one for number, one in enumerate(texts) if not wrong[number] or "cdk8s" in wrong[number][0]}
    Yaml.save(str(tmp_path / "things.yaml"), [thing(accepted)])
    damaged = {pointer for _, pointer in differences((tmp_path / "things.yaml").read_text(encoding="utf-8"), [thing(accepted)])}
    assert len(damaged) > 50
    assert damaged == {pointer for pointer, _ in problems(accepted, "/spec")}
