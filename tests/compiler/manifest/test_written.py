"""Files of dist/, read back by libyaml."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from tests.compiler.projects import ROOT
from yaml import YAMLError

from trainwright.manifest.written import DEEPEST, nodes, values

FILES = sorted((ROOT / "dist").rglob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_nodes_lie_where_ruamel_yaml_sees_them(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    others = [node for node in YAML(typ="safe", pure=True).compose_all(text) if node is not None]
    waiting = [*zip(nodes(text), others, strict=True)]
    assert waiting
    while waiting:
        ours, theirs = waiting.pop()
        assert (ours.start_mark.line, ours.end_mark.line) == (theirs.start_mark.line, theirs.end_mark.line)
        assert isinstance(ours.value, list) == isinstance(theirs.value, list)
        if isinstance(ours.value, list):
            for one, other in zip(ours.value, theirs.value, strict=True):
                waiting += zip(one, other, strict=True) if isinstance(one, tuple) else [(one, other)]
        else:
            assert ours.value == theirs.value


def test_every_scalar_is_text() -> None:
    assert list(values("a: 1\n---\n---\nb: [yes, 0o17]\n")) == [{"a": "1"}, {"b": ["yes", "0o17"]}]


@pytest.mark.parametrize("text", ["[" * 50_000 + "]" * 50_000, "- " * 50_000, "a: [\n"])
def test_what_would_end_the_process_is_an_error(text: str) -> None:
    for read in (nodes, values):
        with pytest.raises(YAMLError):
            list(read(text))


def _block(deep: int, line: str, step: int, end: str) -> str:
    return "".join(f"{' ' * (step * number)}{line}{end}" for number in range(deep)) + f"{' ' * (step * deep)}x{end}"


NESTED = {
    "brackets": lambda deep: "[" * deep + "]" * deep,
    "braces": lambda deep: "{a: " * deep + "}" * deep,
    "a mapping of one pair in each bracket": lambda deep: "[a: " * (deep // 2) + "]" * (deep // 2),
    "dashes in a line": lambda deep: "- " * deep + "x",
    "question marks": lambda deep: "? " * deep + "x",
    "a column each": lambda deep: _block(deep, "a:", 1, "\n"),
    "lines that end as on old machines": lambda deep: _block(deep, "a:", 1, "\r"),
    "a list and a mapping in each column": lambda deep: "".join(
        f"{' ' * (2 * number)}a:\n{' ' * (2 * number)}-\n" for number in range(deep // 2)
    ),
}


@pytest.mark.parametrize("nested", NESTED.values(), ids=NESTED)
def test_only_what_is_nested_too_deeply_is_refused(nested: Callable[[int], str]) -> None:
    assert list(nodes(nested(DEEPEST)))
    with pytest.raises(YAMLError, match="inside each other"):
        list(nodes(nested(DEEPEST + 2)))
