"""The same objects from an ordinary cdk8s program: cdk8s-plus's typed ``k8s`` classes, a chart a file, no resolving.

    .venv/bin/python benchmarks/idiomatic.py MANIFESTS.json OUTDIR

A chart author would write these constructor calls out. Here they are worked out from finished manifests, and the seconds that
takes are printed, to be taken off. What is left is what such a program does: the imports, the typed structs, the round trips to
the jsii kernel, and the synth.
"""

from __future__ import annotations

import json
import sys
import time
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from cdk8s import App, Chart
from cdk8s_plus_33 import k8s

Files = Mapping[str, Sequence[Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class Call:
    """A constructor, or a function such as ``Quantity.from_string``, with its arguments."""

    function: Callable[..., Any]
    positional: tuple[Any, ...] = ()
    named: Mapping[str, Any] = field(default_factory=dict)


def run_program(files: Files, outdir: Path) -> float:
    """Write every file: an App a folder, a chart a file. One App for all is slower, for cdk8s walks an App again for each chart.

    Returns:
        The seconds that went into working out the calls, which are no part of the program.
    """
    aside = 0.0
    folders: dict[str, list[str]] = {}
    for path in files:
        folders.setdefault(str(PurePosixPath(path).parent), []).append(path)
    for folder, paths in folders.items():
        app = App(outdir=str(outdir / folder))
        for path in paths:
            started = time.perf_counter()
            objects = [_object(manifest) for manifest in files[path]]
            aside += time.perf_counter() - started
            chart = Chart(app, PurePosixPath(path).name.removesuffix(".k8s.yaml"))
            for index, made in enumerate(objects):
                made.function(chart, str(index), **{key: _build(value) for key, value in made.named.items()})
        app.synth()
    return aside


def _build(node: Any) -> Any:
    if isinstance(node, Call):
        return node.function(*node.positional, **{key: _build(value) for key, value in node.named.items()})
    if isinstance(node, dict):
        return {key: _build(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_build(item) for item in node]
    return node


def _object(manifest: Mapping[str, Any]) -> Call:
    kind = manifest["kind"]
    made = getattr(k8s, f"Kube{kind}", None)
    if made is None:
        raise ValueError(f"cdk8s-plus has no typed class for {kind}: keep to core kinds in compile_project.py")
    return Call(made, (), _fields(made, {key: value for key, value in manifest.items() if key not in ("apiVersion", "kind")}))


def _fields(made: type, data: Mapping[str, Any]) -> dict[str, Any]:
    """Python's argument names with their values: ``clusterIP`` is ``cluster_ip``, ``clusterIPs`` is ``cluster_i_ps``."""
    hints = _hints(made)
    names = {name.replace("_", "").lower(): name for name in hints}
    return {(name := names[key.lower()]): _typed(hints[name], value) for key, value in data.items()}


@cache
def _hints(made: type) -> dict[str, Any]:
    hints = typing.get_type_hints(made.__init__)  # type: ignore[misc]
    return {name: hint for name, hint in hints.items() if name not in ("return", "scope", "id")}


def _typed(hint: Any, value: Any) -> Any:
    """A value as the argument's type wants it."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        # Optional, number, or a struct beside the plain dict that may stand for it
        hint = typing.get_args(hint)[0]
    arguments = typing.get_args(hint)
    if isinstance(value, list):
        return [_typed(arguments[0], item) for item in value] if arguments else value
    if isinstance(value, dict) and arguments:
        return {key: _typed(arguments[1], item) for key, item in value.items()}
    if hint in (k8s.Quantity, k8s.IntOrString):
        return Call(hint.from_string if isinstance(value, str) else hint.from_number, (value,))
    if isinstance(value, dict) and hasattr(hint, "__jsii_struct_bases__"):
        return Call(hint, (), _fields(hint, value))
    return value


if __name__ == "__main__":
    started = time.perf_counter()
    manifests = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    reading = time.perf_counter() - started
    print(reading + run_program(manifests, Path(sys.argv[2])))
