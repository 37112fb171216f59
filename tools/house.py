"""The numbers of the house: how many modules there are and how long, what imports what, and what stands twice.

``python tools/house.py`` prints them for the compiler and for the trainer, and the lines of code of both;
``python tools/house.py DIRECTORY ...`` for other packages. Nothing is enforced: the figures are for a person who decides what to
join, to split or to write once.
"""

from __future__ import annotations

import ast
import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = (ROOT / "constructs/trainwright", ROOT / "trainer/trainwright_trainer")
LONG, SHORT, PASSAGE = 500, 60, 6
"""Lines: more are too long a module, fewer too short for a single importer, and so many alike are a passage that stands twice."""

Graph = Mapping[str, set[str]]


@dataclass(frozen=True)
class Module:
    """One file, by its dotted name below the package: ``supervisor.pod.crew``. A package's own file has the package's name."""

    name: str
    path: Path

    @cached_property
    def lines(self) -> list[str]:
        return self.path.read_text(encoding="utf-8").splitlines()

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse("\n".join(self.lines))

    @cached_property
    def without_words(self) -> list[tuple[int, str]]:
        """Line numbers and code, without comments, docstrings and blank lines."""
        skipped: set[int] = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                skipped |= set(range(node.lineno, (node.end_lineno or 0) + 1))
        lines = ((number, line.strip()) for number, line in enumerate(self.lines, start=1) if number not in skipped)
        return [(number, line) for number, line in lines if line and not line.startswith("#")]

    @cached_property
    def code(self) -> list[tuple[int, str]]:
        """The same without imports and lines that hold brackets only."""
        skipped: set[int] = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                skipped |= set(range(node.lineno, (node.end_lineno or 0) + 1))
        return [(number, line) for number, line in self.without_words if number not in skipped and re.search(r"\w", line)]

    def span(self, start: int, length: int) -> str:
        return f"{self.name}:{self.code[start][0]}-{self.code[start + length - 1][0]}"


def imports(modules: Sequence[Module], package: str) -> tuple[Graph, Graph]:
    """Who imports whom when it is loaded, and who does only later: in a function, or for types alone."""
    known = {module.name for module in modules}
    loaded, later = dict[str, set[str]](), dict[str, set[str]]()
    for module in modules:
        now = set(_when_loaded(module.tree))
        for graph, nodes in ((loaded, now), (later, set(ast.walk(module.tree)) - now)):
            graph[module.name] = {name for node in nodes for name in _names(node, package, known)} - {module.name}
    return loaded, later


def _when_loaded(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        for_types = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if not for_types and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield node
            yield from _when_loaded(node)


def _names(node: ast.AST, package: str, known: set[str]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        wanted = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        wanted = [f"{node.module}.{alias.name}" for alias in node.names]
    else:
        return
    for name in wanted:
        if name == package or name.startswith(f"{package}."):
            short = name.removeprefix(package).removeprefix(".")
            yield short if short in known else short.rpartition(".")[0]


def modules_below(directory: Path) -> list[Module]:
    """Every module of a package, in the order of their paths.

    A file in a folder without ``__init__.py`` is none. It is a template, which is copied into new projects: nobody here imports
    it, and what it imports is an import of theirs.
    """
    paths = [path for path in sorted(directory.rglob("*.py")) if (path.parent / "__init__.py").exists()]
    dotted = {path: ".".join(path.relative_to(directory).with_suffix("").parts) for path in paths}
    return [Module(name.removesuffix("__init__").removesuffix("."), path) for path, name in dotted.items()]


def circles(graph: Graph) -> list[list[str]]:
    """Sets of nodes that each lead to one another, in name order."""
    reached = {node: _reachable(graph, node) for node in graph}
    found = {tuple(sorted(other for other in reached[node] if node in reached[other])) for node in graph if node in reached[node]}
    return [list(circle) for circle in sorted(found)]


def _reachable(graph: Graph, start: str) -> set[str]:
    seen, waiting = set[str](), list(graph.get(start, ()))
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting += graph.get(node, ())
    return seen


def folder_circles(graph: Graph, folder: str = "") -> Iterator[str]:
    """At each level, folders that lead to one another, with the imports that run against the stream there.

    A ``__main__`` stands for the program and not for its folder, so its imports do not count.
    """
    below = f"{folder}." if folder else ""
    room = {name: name.removeprefix(below).split(".")[0] for name in graph if name.startswith(below) and name != folder}
    room = {name: first for name, first in room.items() if first and not name.endswith("__main__")}
    folders = {first for name, first in room.items() if name != below + first}
    edges = [(name, other) for name in sorted(room) for other in sorted(graph[name]) if room[name] != room.get(other, room[name])]
    rooms = {first: {room[other] for name, other in edges if room[name] == first} for first in room.values()}
    for circle in circles(rooms):
        told = [(room[name], room[other], f"{name} -> {other}") for name, other in edges]
        if folders & set(circle):
            yield f"{' <-> '.join(below + each for each in circle)}: {', '.join(_against(circle, told))}"
    for each in sorted(folders):
        yield from folder_circles(graph, below + each)


def _against(circle: Sequence[str], edges: Sequence[tuple[str, str, str]]) -> list[str]:
    """The fewest imports that run up, as far as moving one room at a time finds an order of them."""

    def against(order: Sequence[str]) -> list[str]:
        height = {room: -place for place, room in enumerate(order)}
        return [told for room, other, told in edges if {room, other} <= {*order} and height[room] < height[other]]

    order = list(circle)
    for room in order * 3:
        rest = [other for other in order if other != room]
        order = min(([*rest[:place], room, *rest[place:]] for place in range(len(order))), key=lambda each: len(against(each)))
    return against(order)


def twins(modules: Sequence[Module]) -> list[str]:
    """Passages of at least ``PASSAGE`` lines of code that stand twice, the longest first."""
    places: dict[tuple[str, ...], list[tuple[Module, int]]] = defaultdict(list)
    for module in modules:
        code = [line for _, line in module.code]
        for start in range(len(code) - PASSAGE + 1):
            places[tuple(code[start:start + PASSAGE])].append((module, start))
    found = []
    for (one, first), *others in places.values():
        for other, second in others:
            if first and second and one.code[first - 1][1] == other.code[second - 1][1]:
                continue  # a part of a longer passage
            pairs = zip(one.code[first:], other.code[second:], strict=False)
            length = len(list(takewhile(lambda pair: pair[0][1] == pair[1][1], pairs)))
            found.append((length, f"{one.span(first, length)} = {other.span(second, length)}"))
    return [f"{length} lines: {places}" for length, places in sorted(found, key=lambda passage: (-passage[0], passage[1]))]


def code_lines(directory: Path) -> int:
    """Lines of code of a package: what grows when it learns something, however much is said about it."""
    return sum(len(module.without_words) for module in modules_below(directory))


def report(directory: Path) -> Iterator[str]:
    """Lines for a person."""
    modules = modules_below(directory)
    sized = [module for module in modules if len(module.lines) > 1]
    loaded, later = imports(modules, directory.name)
    every = {name: loaded[name] | later[name] for name in loaded}
    importers = {name: sorted(other for other in every if name in every[other]) for name in every}
    lengths = sorted(len(module.lines) for module in sized)
    loose = {module.name for module in modules if module.path.parent == directory} - {""}
    folders = {module.name.split(".")[0] for module in modules} - loose - {""}
    said = f"{len(sized)} modules, {sum(lengths):,} lines"
    yield f"{directory.name}: {said}, {code_lines(directory):,} without docstrings, comments and blanks"
    yield f"  lines of a module: median {statistics.median(lengths):.0f}, 9th decile {lengths[len(lengths) * 9 // 10]}"
    yield f"  folders at the top: {len(folders)}: {', '.join(sorted(folders))}"
    yield f"  modules beside them: {len(loose)}: {', '.join(sorted(loose))}"
    reached = {name: _reachable(every, name) for name in every}
    lists = {
        f"modules above {LONG} lines": [f"{module.name} ({len(module.lines)})" for module in sized if len(module.lines) > LONG],
        f"modules below {SHORT} lines with a single importer": [
            f"{module.name} ({len(module.lines)}) <- {importers[module.name][0] or directory.name}" for module in sized
            if len(module.lines) < SHORT and module.path.name != "__init__.py" and len(importers[module.name]) == 1
        ],
        "circles of modules": [" <-> ".join(circle) for circle in circles(loaded)],
        "imports in functions or for types that run back up": [
            f"{name} -> {other}" for name in sorted(later) for other in sorted(later[name]) if name in reached[other]
        ],
        "circles of folders": list(folder_circles(every)),
        f"passages of {PASSAGE} lines and more that stand twice": twins(modules),
    }
    for title, found in lists.items():
        yield f"  {title}: {len(found)}"
        yield from (f"    {each}" for each in found)


if __name__ == "__main__":
    places = [Path(place).resolve() for place in sys.argv[1:] or PACKAGES]
    for place in places:
        print("\n".join(report(place)))
    print(f"Lines of code in all, without docstrings, comments and blanks: {sum(map(code_lines, places)):,}")
