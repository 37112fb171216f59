"""The files, folders and modules that a page names exist: pages follow the code when it moves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.pages import DOCS, PAGES, ROOT

ALL = [*PAGES, *sorted((DOCS / "findings").glob("*.md"))]
PACKAGES = {"trainwright": ROOT / "constructs" / "trainwright", "trainwright_trainer": ROOT / "trainer" / "trainwright_trainer"}
OURS = ("constructs/", "trainer/", "tests/", "tools/", "benchmarks/", "requirements/")
"""Folders of this repository whose files are named by their whole path."""
UPSTREAM = ("torch/", "deepspeed/", "transformers/", "runtime/", "stage3.py", "partitioned_param_coordinator.py", "setup.py")
"""What pages cite from other projects."""

CODE = re.compile(r"`([^`\n]+)`")
DOTTED = re.compile(r"(?<![\w/.-])(trainwright(?:_trainer)?)\.([A-Za-z_][\w.]*\w)(?![\w/])")


def prose(page: Path) -> str:
    """Without fenced blocks, whose paths are those of an example."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def paths(page: Path) -> Iterator[str]:
    """Those in code spans that are of this repository."""
    for span in CODE.findall(prose(page)):
        if span.startswith(UPSTREAM) or " " in span:
            continue
        if span.startswith(OURS) or re.fullmatch(r"[\w-]+(/[\w-]+)*\.py", span):
            yield span


def exists(path: str) -> bool:
    """From the root of the repository or of a package, or, for the bare name of a module, anywhere in our sources."""
    pattern = re.sub(r"<\w+>", "*", path.rstrip("/"))
    if any(any(root.glob(pattern)) for root in (ROOT, *PACKAGES.values())):
        return True
    return "/" not in path and any(any((ROOT / folder).rglob(path)) for folder in OURS)


def resolves(package: str, rest: str) -> bool:
    """As a module, or as a name that stands in the module before it."""
    parts = rest.split(".")
    for length in range(len(parts), -1, -1):
        place = PACKAGES[package].joinpath(*parts[:length])
        file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        if file.is_file():
            names = parts[length : length + 1]
            return all(re.search(rf"\b{name}\b", file.read_text(encoding="utf-8")) for name in names)
    return False


@pytest.mark.parametrize("page", ALL, ids=lambda page: page.name)
def test_the_paths_of_a_page_exist(page: Path) -> None:
    assert [path for path in paths(page) if not exists(path)] == []


@pytest.mark.parametrize("page", ALL, ids=lambda page: page.name)
def test_the_modules_of_a_page_exist(page: Path) -> None:
    named = set(DOTTED.findall(page.read_text(encoding="utf-8")))
    assert sorted(f"{package}.{rest}" for package, rest in named if not resolves(package, rest)) == []


def test_the_architecture_names_every_room() -> None:
    table = (DOCS / "architecture.md").read_text(encoding="utf-8")
    rooms = [file.parent.relative_to(ROOT).as_posix() for folder in PACKAGES.values() for file in folder.glob("*/__init__.py")]
    assert [room for room in sorted(rooms) if f"`{room}`" not in table] == []


def test_the_names_in_the_architecture_are_in_the_code() -> None:
    code = "\n".join(file.read_text(encoding="utf-8") for folder in PACKAGES.values() for file in folder.rglob("*.py"))
    named = {span for span in CODE.findall(prose(DOCS / "architecture.md")) if re.fullmatch(r"[A-Z]\w+(\.\w+)?", span)}
    assert [name for name in sorted(named) if not all(re.search(rf"\b{part}\b", code) for part in name.split("."))] == []
