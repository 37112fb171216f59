"""The script that prints the numbers of the house: what it finds in a small package."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.house import code_lines, report


def lines_of(name: str, count: int) -> str:
    return "".join(f"{name}_{number} = {number}\n" for number in range(count))


PASSAGE = "".join(f"    {line}\n" for line in lines_of("step", 7).splitlines())


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    files = {
        "__init__.py": '"""A package."""\n',
        "till.py": '"""Sells."""\nfrom shop.store import shelf\n\n\ndef sell():\n    # a comment\n' + PASSAGE,
        "store/__init__.py": "",
        "store/shelf.py": "from shop.store.box import Box\n\n\ndef fill():\n    from shop import till\n    return till\n",
        "store/box.py": "class Box:\n    pass\n\n\ndef pack():\n    'Different words.'\n" + PASSAGE,
        "office/__init__.py": "",
        "office/desk.py": "from shop.office import lamp\n" + lines_of("x", 60),
        "office/lamp.py": "from shop.office import desk\n" + lines_of("y", 501),
        "office/forms/order.py": "from shop import till\n" + lines_of("z", 501),
    }
    for name, text in files.items():
        path = tmp_path / "shop" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "shop"


def test_what_is_worth_a_look_is_named(shop: Path) -> None:
    lines = [line.strip() for line in report(shop)]
    assert {"folders at the top: 2: office, store", "modules beside them: 1: till"} <= set(lines)
    assert after(lines, "modules above 500 lines") == ["office.lamp (502)"]
    assert after(lines, "modules below 60 lines with a single importer") == [
        "store.box (13) <- store.shelf", "store.shelf (6) <- till", "till (13) <- store.shelf",
    ]
    assert after(lines, "circles of modules") == ["office.desk <-> office.lamp"]
    assert after(lines, "imports in functions or for types that run back up") == ["store.shelf -> till"]
    assert after(lines, "circles of folders") == ["store <-> till: store.shelf -> till"]


def test_a_passage_stands_twice_whatever_its_comments_docstrings_and_place(shop: Path) -> None:
    assert after([line.strip() for line in report(shop)], "passages of 6 lines") == ["7 lines: store.box:7-13 = till:7-13"]


def test_a_template_is_no_module(shop: Path) -> None:
    assert not [line for line in report(shop) if "order" in line]


def after(lines: list[str], title: str) -> list[str]:
    """The list below a title, which says how long it is."""
    index = next(number for number, line in enumerate(lines) if line.startswith(title))
    return lines[index + 1:index + 1 + int(lines[index].rsplit(" ", 1)[1])]


def test_lines_of_code_are_those_without_words(tmp_path: Path) -> None:
    package = tmp_path / "words"
    package.mkdir()
    (package / "__init__.py").write_text('"""A package\n\nwith a long docstring.\n"""\n')
    (package / "one.py").write_text(
        '"""One."""\n\nimport os\n\nTEXT = """\\\nof a value\n"""\n"""Of an attribute."""\n\n\n# a comment\n'
        'def path() -> str:\n    """Where."""\n    return os.path.join(\n        "a",  # and why\n        "b",\n    )\n\n\n'
        'def later() -> None:\n    ...\n'
    )
    assert code_lines(package) == 11
    (line, *_) = report(package)
    assert line.endswith("11 without docstrings, comments and blanks")
