"""The numbers of the house: how many modules there are and how long, what imports what, and what stands twice.

``python tools/house.py`` prints them for the compiler and for the trainer; ``python tools/house.py DIRECTORY ...`` for other
packages. Nothing is enforced: the figures are for a person who decides what to join, to split or to write once.
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
PACKAGES = ("constructs/trainwright", "trainer/trainwright_trainer")
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
    def code(self) -> list[tuple[int, str]]:
        """Line numbers and code, without comments, docstrings, imports and lines that hold brackets only."""
        skipped: set[int] = set()
        for node in ast.walk(self.tree):
            is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            if is_text or isinstance(node, ast.Import | ast.ImportFrom):
                skipped |= set(range(node.lineno, (node.end_lineno or 0) + 1))  # type: ignore[attr-defined]
        lines = ((number, line.strip()) for number, line in enumerate(self.lines, start=1) if number not in skipped)
        return [(number, line) for number, line in lines if not line.startswith("#") and re.search(r"\w", line)]


def imports(modules: Sequence[Module], package: str) -> tuple[Graph, Graph]:
    """Who imports whom when it is loaded, and who does only later: in a function, or for types alone."""
    known = {module.name for module in modules}
    loaded, later = {}, {}
    for module in modules:
        now = set(_when_loaded(module.tree))
        loaded[module.name] = {name for node in now for name in _names(node, package, known)} - {module.name}
        rest = set(ast.walk(module.tree)) - now
        later[module.name] = {name for node in rest for name in _names(node, package, known)} - {module.name}
    return loaded, later


def _when_loaded(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
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
    """Every module of a package, in name order."""
    found = []
    for path in sorted(directory.rglob("*.py")):
        parts = path.relative_to(directory).with_suffix("").parts
        found.append(Module(".".join(parts[:-1] if parts[-1] == "__init__" else parts), path))
    return found


def circles(graph: Graph) -> list[list[str]]:
    """Sets of nodes that each lead to one another, in name order."""
    reached = {node: _reachable(graph, node) for node in graph}
    found = {tuple(sorted(other for other in reached[node] if node in reached[other])) for node in graph if node in reached[node]}
    return [list(circle) for circle in sorted(found)]


def _reachable(graph: Graph, start: str) -> set[str]:
    seen: set[str] = set()
    waiting = list(graph.get(start, ()))
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
        inner = [(name, other) for name, other in edges if {room[name], room[other]} <= set(circle)]
        # Who imports more than it is imported stands higher.
        height = {each: sum((room[name] == each) - (room[other] == each) for name, other in inner) for each in circle}
        if folders & set(circle):
            back = [f"{name} -> {other}" for name, other in inner if height[room[name]] <= height[room[other]]]
            yield f"{' <-> '.join(below + each for each in circle)}: {', '.join(back)}"
    for each in sorted(folders):
        yield from folder_circles(graph, below + each)


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
            found.append((length, f"{_span(one, first, length)} = {_span(other, second, length)}"))
    return [f"{length} lines: {places}" for length, places in sorted(found, key=lambda passage: (-passage[0], passage[1]))]


def _span(module: Module, start: int, length: int) -> str:
    return f"{module.name}:{module.code[start][0]}-{module.code[start + length - 1][0]}"


def report(directory: Path) -> Iterator[str]:
    """Lines for a person."""
    modules = modules_below(directory)
    sized = [module for module in modules if len(module.lines) > 1]
    names = {module.name for module in modules}
    loaded, later = imports(modules, directory.name)
    every = {name: loaded[name] | later[name] for name in loaded}
    importers = {name: sorted(other for other in every if name in every[other]) for name in names}
    lengths = sorted(len(module.lines) for module in sized)
    rooms = {module.name.split(".")[0] for module in modules} - {""}
    loose = {module.name for module in modules if module.path.parent == directory} - {""}
    yield f"{directory.name}: {len(sized)} modules, {sum(lengths):,} lines"
    yield f"  lines of a module: median {statistics.median(lengths):.0f}, 9th decile {lengths[len(lengths) * 9 // 10]}"
    yield f"  folders at the top: {len(rooms - loose)}: {', '.join(sorted(rooms - loose))}"
    yield f"  modules beside them: {len(loose)}: {', '.join(sorted(loose))}"
    reached = {name: _reachable(every, name) for name in names}
    run_back = [f"{name} -> {other}" for name in sorted(later) for other in sorted(later[name]) if name in reached[other]]
    lists = {
        f"modules above {LONG} lines": [f"{module.name} ({len(module.lines)})" for module in sized if len(module.lines) > LONG],
        f"modules below {SHORT} lines with a single importer": [
            f"{module.name} ({len(module.lines)}) <- {importers[module.name][0] or directory.name}" for module in sized
            if len(module.lines) < SHORT and module.path.name != "__init__.py" and len(importers[module.name]) == 1
        ],
        "circles of modules": [" <-> ".join(circle) for circle in circles(loaded)],
        "imports in functions or for types that run back up": run_back,
        "circles of folders": list(folder_circles(every)),
        f"passages of {PASSAGE} lines and more that stand twice": twins(modules),
    }
    for title, found in lists.items():
        yield f"  {title}: {len(found)}"
        yield from (f"    {each}" for each in found)


def main(arguments: list[str]) -> None:
    """Print the numbers of the packages named, or of ours."""
    for place in arguments or [str(ROOT / package) for package in PACKAGES]:
        print("\n".join(report(Path(place))))


if __name__ == "__main__":
    main(sys.argv[1:])
