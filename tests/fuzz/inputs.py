"""Runs and profiles that nobody would write, each made from its number alone.

Every example in ``charts/`` and every run of the fleet is broken in four ways: its structure, its texts, its overrides at any
place that a schema has, and, as a Python program can, its values behind the back of pydantic.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from tests.compiler.objects import catalogue
from tests.compiler.strategies import NASTY, pointers

from trainwright.cluster import Cluster
from trainwright.compile import CompiledRun, compile_run
from trainwright.manifest.kinds import GroupKind
from trainwright.project.load import Project, load_sources
from trainwright.run import Run
from trainwright.validate.core_schemas import known_version, schema_of

Data = dict[str, Any]

ROOT = Path(__file__).resolve().parents[2]
TODAY = date(2026, 11, 1)


@dataclass(frozen=True, slots=True)
class Input:
    """A profile and a run: plain data as a file holds them, or models as a Python program made them."""

    name: str
    """The example, and what was done to it."""
    cluster: Data | Cluster
    run: Data | Run


@dataclass(frozen=True, slots=True)
class Example:
    name: str
    cluster: Cluster
    run: Run


@cache
def examples() -> tuple[Example, ...]:
    """Those that compile as they are."""
    found = []
    for root in (ROOT, ROOT / "tests" / "compiler" / "fleet"):
        sources = load_sources(Project(root))
        found += [Example(name, sources.clusters[file.run.cluster].cluster, file.run) for name, file in sources.runs.items()]
    return tuple(found)


def made(seed: int, number: int) -> Input:
    """The input of a number; always the same for a seed."""
    chance = random.Random(f"{seed}/{number}")
    example = chance.choice(examples())
    return chance.choice(_MAKERS)(chance, example)


def _plain(model: BaseModel) -> Data:
    return model.model_dump(mode="json", exclude_unset=True)


def _at(data: Any, path: tuple[str | int, ...]) -> Any:
    for key in path:
        data = data[key]
    return data


# Structure.


def broken_structure(chance: random.Random, example: Example) -> Input:
    """One to three keys or items replaced, removed, renamed, added, or taken from elsewhere."""
    data = {"run": _plain(example.run), "cluster": _plain(example.cluster)}
    other = chance.choice(examples())
    done = []
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        side = chance.choice(("run", "run", "cluster"))
        paths = pointers(data[side])
        path = chance.choice(paths or [()])
        if path:
            change = chance.choice(_CHANGES)
            change(chance, data[side], path, _plain(other.run if side == "run" else other.cluster))
            done.append(f"{change.__name__} {side}:/{'/'.join(map(str, path))}")
    return Input(f"{example.name}: {', '.join(done)}", data["cluster"], data["run"])


Path_ = tuple[str | int, ...]


def replace(chance: random.Random, data: Data, path: Path_, other: Data) -> None:
    _at(data, path[:-1])[path[-1]] = copy.deepcopy(chance.choice(NASTY))


def remove(chance: random.Random, data: Data, path: Path_, other: Data) -> None:
    del _at(data, path[:-1])[path[-1]]


def rename(chance: random.Random, data: Data, path: Path_, other: Data) -> None:
    parent = _at(data, path[:-1])
    if isinstance(parent, dict):
        parent[chance.choice((str(chance.choice(NASTY)), "run", "suspend", "kind"))] = parent.pop(path[-1])


def add(chance: random.Random, data: Data, path: Path_, other: Data) -> None:
    parent = _at(data, path[:-1])
    if isinstance(parent, dict):
        parent[str(chance.choice((*NASTY, "unknown", "名")))] = copy.deepcopy(chance.choice(NASTY))
    else:
        parent.append(copy.deepcopy(chance.choice((chance.choice(parent), chance.choice(NASTY)))))


def graft(chance: random.Random, data: Data, path: Path_, other: Data) -> None:
    """What another example says, at the same place or at any."""
    there = [one for one in pointers(other) if one == path] or pointers(other)
    _at(data, path[:-1])[path[-1]] = copy.deepcopy(_at(other, chance.choice(there)))


def graft_key(chance: random.Random, data: Data, path: Path_, other: Data) -> None:
    key = chance.choice(list(other))
    data[key] = copy.deepcopy(other[key])


def nudge(chance: random.Random, data: Data, path: Path_, other: Data) -> None:
    """Another value of the same type."""
    parent, value = _at(data, path[:-1]), _at(data, path)
    if isinstance(value, bool):
        parent[path[-1]] = not value
    elif isinstance(value, int | float):
        parent[path[-1]] = chance.choice((value + 1, value - 1, value * 2, value * 1000, -value, 0))
    elif isinstance(value, str):
        texts = [one for one in (_at(other, there) for there in pointers(other)) if isinstance(one, str)]
        parent[path[-1]] = chance.choice((value + "-x", value[:1], *texts))


_CHANGES: tuple[Callable[[random.Random, Data, Path_, Data], None], ...] = (
    replace, remove, rename, add, graft, graft, graft_key, graft_key, nudge, nudge, nudge,
)  # fmt: skip


# Text.

SENTENCE = "You are a helpful assistant that answers questions."
_PIECES = (
    " ", "  ", "\n", "\n\n", "\n ", " \n", "\t", "\r\n", "\\", '"', "'", "#", ": ", "- ", "---", "...", "|", ">", "%", "&a", "*a",
    "!x", "{", "}", "[", "]", ",", "?", "@", "`", "=", "<<", "~", "yes", "1e5", "0x1f", "\x00", "\x07", "\x1b[2J", "\x7f", "\x85",
    "\u00a0", "\u2028", "\u202e", "\ufeff", "\ud800", "é", "名", "🚀", "$(HOME)", "${X}", "{0}", "%s", "a", SENTENCE,
)  # fmt: skip


_LINES = ("", " ", "  ", "\t", " a", "a ", "a", "# a", "- a", "\x1b", SENTENCE)


def hostile_text(chance: random.Random, example: Example) -> Input:
    """Text made of what YAML, shells and terminals read, in one place that holds text, or in one that may."""
    run, cluster = _plain(example.run), _plain(example.cluster)
    pieces = [chance.choice(_PIECES) for _ in range(chance.choice((1, 2, 3, 6, 12)))]
    lines = [chance.choice(_LINES) for _ in range(chance.choice((2, 4, 6)))]
    text = chance.choice(("".join(pieces), "\n".join(lines), "\n".join([SENTENCE, *lines])))
    side = chance.choice((run, run, run, cluster))
    texts = [path for path in pointers(side) if isinstance(_at(side, path), str)]
    places: list[Callable[[], Any]] = [
        lambda: run.setdefault("env", {}).__setitem__("TEXT", text),
        lambda: run.setdefault("files", {}).__setitem__("/etc/text", text),
        lambda: run.setdefault("files", {}).__setitem__("/etc/text.json", {text: [text]}),
        lambda: run.setdefault("labels", {}).__setitem__("example.com/text", text),
        lambda: run.setdefault("labels", {}).__setitem__(text, "x"),
        lambda: run.setdefault("files", {}).__setitem__(f"/etc/{text}", "x"),
        lambda: run["workload"].__setitem__("command", ["python", text]),
        lambda: run["workload"].__setitem__("command", text),
        lambda: run.__setitem__("overrides", {"pod": {"node": {"hostname": text, "nodeSelector": {text: text}}}}),
    ]
    path = chance.choice(texts)
    where = "/".join(map(str, path))
    if chance.random() < 0.6:
        number = chance.randrange(len(places))
        places[number]()
        where = f"place {number}"
    else:
        _at(side, path[:-1])[path[-1]] = text
    return Input(f"{example.name}: text {text!a} at {where}", cluster, run)


# Overrides.


def overridden(chance: random.Random, example: Example) -> Input:
    """Patches at places that the schemas of the run's objects have, with values that they mostly allow."""
    compiled, version = _compiled(example), known_version(example.cluster.kubernetes)
    run = _plain(example.run)
    overrides: Data = {"pod": {}, "objects": []}
    for _ in range(chance.choice((1, 1, 2))):
        if chance.random() < 0.4:
            manifest = chance.choice([one for one in compiled.manifests if one["kind"] != "ConfigMap"])
            patch = _grown(chance, manifest)
            overrides["objects"].append({"target": compiled.target.name, "kind": manifest["kind"], "patch": patch})
        elif chance.random() < 0.35:
            role = chance.choice([role.name for role in compiled.resolution.binding.roles])
            schema = {"$ref": "/io.k8s.api.core.v1.PodSpec"}
            overrides["pod"][role] = _value(chance, schema, None, version, 0)
        else:
            manifest = chance.choice(compiled.manifests)
            patch = _value(chance, _schema(manifest, version), manifest, version, 0)
            patch = patch if isinstance(patch, dict) else {"spec": patch}
            kept = {key: value for key, value in patch.items() if key not in ("apiVersion", "kind") or chance.random() < 0.1}
            overrides["objects"].append({"target": compiled.target.name, "kind": manifest["kind"], "patch": kept})
    return Input(f"{example.name}: overrides {overrides!a}", _plain(example.cluster), run | {"overrides": overrides})


def _grown(chance: random.Random, manifest: Data) -> Data:
    """A patch that adds what is there once more, beside itself or under another name, or changes it a little."""
    *path, last = chance.choice([one for one in pointers(manifest) if one[0] not in ("apiVersion", "kind")])
    parent = _at(manifest, tuple(path))
    value = copy.deepcopy(parent[last])
    if isinstance(value, dict) and "name" in value:
        value["name"] = "beside"
    elif isinstance(value, int):
        value += 1
    key = chance.choice((last, last, "x", "Launcher", "Worker", "PS", "template", "example.com/x"))
    patch: Any = [value] if isinstance(parent, list) else {key: value}
    for depth in reversed(range(len(path))):
        holder, step = _at(manifest, tuple(path[:depth])), path[depth]
        if isinstance(holder, list):
            item = holder[int(step)]
            patch = [{"name": item["name"], **patch} if isinstance(item, dict) and "name" in item else patch]
        else:
            patch = {step: patch}
    return dict(patch)


@cache
def _compile(number: int) -> CompiledRun:
    example = examples()[number]
    return compile_run(example.run, example.cluster, today=TODAY)


def _compiled(example: Example) -> CompiledRun:
    return _compile(next(number for number, one in enumerate(examples()) if one is example))


def _schema(manifest: Data, version: str) -> Mapping[str, Any]:
    crd = catalogue().crds.get(GroupKind.of(manifest))
    if crd is not None:
        name = manifest["apiVersion"].rpartition("/")[2]
        return crd.versions[name].schema
    try:
        return schema_of(manifest["kind"], manifest["apiVersion"], version)
    except Exception:
        return {"type": "object", "properties": {"spec": {"type": "object", "additionalProperties": {}}}}


SIDECAR = {"name": "x", "image": "registry.example.com/x:1", "resources": {"limits": {"cpu": "1", "nvidia.com/gpu": "1"}}}


def _value(chance: random.Random, schema: Mapping[str, Any], there: Any, version: str, depth: int) -> Any:
    """A part of a patch: along what is ``there`` already, or anywhere else in the schema."""
    if chance.random() < 0.04:
        return copy.deepcopy(chance.choice((*NASTY, there, [{"image": "x"}], [SIDECAR])))
    properties = schema.get("properties")
    if properties:
        known = [key for key in there if key in properties] if isinstance(there, dict) else []
        along = known and chance.random() < 0.75
        keys = chance.sample(known if along else list(properties), 1)
        keys = list(dict.fromkeys([*keys, *(key for key in schema.get("required", ()) if not along and chance.random() < 0.9)]))
        inside = there if isinstance(there, dict) else {}
        return {key: _value(chance, properties[key], inside.get(key), version, depth + 1) for key in keys if depth < 14}
    if isinstance(schema.get("additionalProperties"), Mapping):
        inside = there if isinstance(there, dict) else {}
        key = chance.choice([*inside, "example.com/x", "x", "nvidia.com/gpu", "cpu"])
        return {key: _value(chance, schema["additionalProperties"], inside.get(key), version, depth + 1)}
    return _leaf(chance, schema, there, version, depth)


def _leaf(chance: random.Random, schema: Mapping[str, Any], there: Any, version: str, depth: int) -> Any:
    kind = schema.get("type")
    kind = next((one for one in kind if one != "null"), None) if isinstance(kind, list) else kind
    if kind == "array":
        items = there if isinstance(there, list) and there else [None]
        item = chance.choice(items)
        value = _value(chance, schema.get("items", {}), item, version, depth + 1)
        if isinstance(value, dict) and isinstance(item, dict) and "name" in item and chance.random() < 0.7:
            value["name"] = item["name"]  # merged into the one that is there
        return [value]
    if schema.get("enum"):
        return chance.choice(schema["enum"])
    if schema.get("x-kubernetes-int-or-string") or kind is None:
        return chance.choice((1, "1", "50%", "1Gi", 0, there if there is not None else 2))
    if kind == "boolean":
        return chance.choice((True, False))
    if kind in ("integer", "number"):
        return chance.choice((0, 1, 2, 3, 8, 100, 70000))
    return chance.choice(("x", "a-b", "1", "", there if isinstance(there, str) else "y", "registry.example.com/x:1", "30s"))


# Python.


class Colour(StrEnum):
    RED = "red"


class Text(str):
    """Not quite a text."""


DEEP: Data = {}
for _ in range(400):
    DEEP = {"x": DEEP}
CYCLE: Data = {}
CYCLE["x"] = [CYCLE]
PYTHON: tuple[Any, ...] = (
    *NASTY, object(), {1, 2}, b"x", (1, 2), Decimal("1.5"), Colour.RED, Text("x"), Text("\ud800"), date(2026, 1, 1), 1j, 10**5000,
    lambda: None, int, DEEP, CYCLE, {1: 2}, {(): "x"}, {"a": {1}}, [b"x"], range(3), iter(()), "three", -1, Exception("x"),
)  # fmt: skip


def updated(chance: random.Random, example: Example) -> Input:
    """``model_copy``, ``model_construct`` or a dict that is changed in place, somewhere in the run or in the profile."""
    run, cluster = copy.deepcopy(example.run), copy.deepcopy(example.cluster)
    done: list[str] = []
    if chance.random() < 0.75:
        run = _updated(chance, run, done)
    else:
        cluster = _updated(chance, cluster, done)
    return Input(f"{example.name}: {'; '.join(done)}", cluster, run)


def _updated(chance: random.Random, model: Any, done: list[str]) -> Any:
    fields = list(type(model).model_fields)
    below = [name for name in fields if isinstance(getattr(model, name, None), BaseModel)]
    if below and chance.random() < 0.5:
        name = chance.choice(below)
        done.append(name)
        return model.model_copy(update={name: _updated(chance, getattr(model, name), done)})
    value, name = chance.choice(PYTHON), chance.choice((*fields, *fields, "unknown"))
    value = chance.choice(examples()).run.topology if chance.random() < 0.05 else value
    mappings = [one for one in fields if isinstance(getattr(model, one, None), dict)]
    how = chance.choice(("copy", "copy", "construct", "in place"))
    done.append(f"{how} {name} = {type(value).__name__}")
    if how == "in place" and mappings:
        mapping = getattr(model, chance.choice(mappings))
        mapping[chance.choice((*mapping, "x", "bad key!", 5))] = value
        return model
    if how == "construct":
        return type(model).model_construct(**{**model.__dict__, name: value})
    return model.model_copy(update={name: value})


_MAKERS = (*(broken_structure,) * 3, *(hostile_text,) * 3, *(overridden,) * 3, updated)
