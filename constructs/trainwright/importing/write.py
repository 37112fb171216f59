"""Runs and profiles as YAML that a person would write: short things on one line, texts as they are, and comments."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from trainwright.findings.locate import escape
from trainwright.importing.comments import Remarks
from trainwright.importing.words import Data
from trainwright.reading.scalar import ScalarError, written_scalar

WIDTH = 110
_ORDER = (
    "run", "team", "namespace", "cluster", "target", "runtime", "initializer", "node_pool", "queue", "priority", "gang", "image",
    "image_pull_policy", "image_pull_secrets", "topology", "workload", "env", "env_from", "files", "file_modes", "file_folders",
    "mounts", "resources", "resource_claims", "security", "service_account", "host_network", "placement", "node_affinity",
    "pod_affinity", "pod_anti_affinity", "runtime_class", "scheduling_gates", "containers", "ports", "probes", "pre_stop",
    "restarts", "on_disruption", "exit_codes", "grace", "deadline", "pod_labels", "pod_annotations", "labels", "annotations",
    "roles",
)  # fmt: skip
"""Of a run: what it is, where it goes, what it does, and then all else."""
_WITHIN = (
    "name", "kind", "engine", "nodes", "gpus_per_node", "processes_per_node", "pods", "image", "command", "args", "env", "mounts",
    "cpu", "memory", "requests",
)  # fmt: skip
_PLAIN = re.compile(r"(-+[A-Za-z0-9]|[A-Za-z0-9_./$^~+])[^\n\t\x00-\x1f\x7f]*")
_SAFE_IN_FLOW = re.compile(r"[^\[\]{},]*")


def run_text(data: Data, remarks: Remarks) -> str:
    """A run as its file."""
    known = {key: number for number, key in enumerate(_ORDER)}
    ordered = dict(sorted(data.items(), key=lambda one: known.get(one[0], len(known))))
    return _Writer(remarks).text(ordered)


def profile_text(data: Data, remarks: Remarks) -> str:
    """A profile as its file."""
    return _Writer(remarks, sort=False).text(data)


class _Writer:
    def __init__(self, remarks: Remarks, sort: bool = True) -> None:
        self._remarks = remarks
        self._sort = sort

    def text(self, data: Data) -> str:
        head = [f"#{line}".rstrip() for line in self._remarks.get("", ())]
        return "\n".join([*head, *self._mapping(data, "", 0)]) + "\n"

    def _mapping(self, data: Mapping[str, Any], pointer: str, indent: int) -> Iterator[str]:
        for key, value in (self._sorted(data) if pointer else data).items():
            here, before = f"{pointer}/{escape(str(key))}", " " * indent
            yield from (f"{before}#{line}".rstrip() for line in self._remarks.get(here, ()))
            yield from self._entry(f"{before}{scalar(str(key))}:", value, here, indent)

    def _sorted(self, data: Mapping[str, Any]) -> Mapping[str, Any]:
        if not self._sort or not all(key in _WITHIN or value is not None for key, value in data.items()):
            return data
        known = {key: number for number, key in enumerate(_WITHIN)}
        return dict(sorted(data.items(), key=lambda one: known.get(one[0], len(known))))

    def _entry(self, start: str, value: Any, pointer: str, indent: int) -> Iterator[str]:
        """A key or the sign of an item, and its value on the same line or below."""
        if isinstance(value, dict | list) and value:
            flow = None if self._speaks_within(pointer) or _depth(value) > _DEEPEST else self.flow(value)
            if flow is not None and len(start) + 1 + len(flow) <= WIDTH:
                yield f"{start} {flow}"
            elif flow is not None and isinstance(value, list) and _is_terse(value):
                yield from _wrapped(
                    f"{start} [", [scalar(str(one), in_flow=True) if isinstance(one, str) else flow_scalar(one) for one in value]
                )
            elif isinstance(value, dict) and start.endswith("-"):
                yield from _first_line(start, list(self._mapping(value, pointer, indent + 2)), indent)
            elif isinstance(value, dict):
                yield start
                yield from self._mapping(value, pointer, indent + 2)
            else:
                yield start
                for number, one in enumerate(value):
                    here, below = f"{pointer}/{number}", indent + 2
                    yield from (f"{' ' * below}#{line}".rstrip() for line in self._remarks.get(here, ()))
                    yield from self._entry(f"{' ' * below}-", one, here, below)
        elif isinstance(value, str) and (block := _block(value)) is not None:
            yield f"{start} {block}"
            yield from (" " * (indent + 2) + line if line else "" for line in value.rstrip("\n").split("\n"))
            yield from [""] * (len(value) - len(value.rstrip("\n")) - 1)
        else:
            yield f"{start} {scalar(value) if isinstance(value, str) else flow_scalar(value)}"

    def _speaks_within(self, pointer: str) -> bool:
        return any(one.startswith(f"{pointer}/") for one in self._remarks)

    def flow(self, value: Any) -> str | None:
        """On one line; None where a text in it has several."""
        if isinstance(value, dict):
            parts = [(scalar(str(key), in_flow=True), self.flow(each)) for key, each in self._sorted(value).items()]
            if any(each is None for _, each in parts):
                return None
            return f"{{{', '.join(f'{key}: {each}' for key, each in parts)}}}"
        if isinstance(value, list):
            items = [self.flow(each) for each in value]
            return None if None in items else f"[{', '.join(str(each) for each in items)}]"
        if isinstance(value, str):
            return None if _block(value) is not None else scalar(value, in_flow=True)
        return flow_scalar(value)


_DEEPEST = 2
"""Mappings within each other that a line may have."""


def _depth(value: Any) -> int:
    """How many mappings with keys are within each other."""
    if isinstance(value, list):
        return max(map(_depth, value), default=0)
    return 1 + max(map(_depth, value.values())) if isinstance(value, dict) and value else 0


def _first_line(start: str, lines: list[str], indent: int) -> Iterator[str]:
    """A mapping as an item of a list: its first line stands behind the sign, unless that is a comment."""
    if lines and not lines[0].lstrip().startswith("#"):
        yield f"{start} {lines[0].lstrip()}"
        yield from lines[1:]
    else:
        yield start
        yield from lines


def _is_terse(value: list[Any]) -> bool:
    """Words of which several fit a line, such as options with their values."""
    return (
        bool(value)
        and all(not isinstance(one, dict | list) for one in value)
        and sum(len(str(one)) for one in value) < 20 * len(value)
    )


def _wrapped(start: str, items: list[str]) -> Iterator[str]:
    line, below = start, " " * len(start)
    for number, item in enumerate(items):
        end = "]" if number == len(items) - 1 else ","
        if line != start and line.strip() and len(line) + len(item) + 2 > WIDTH + 15:
            yield line.rstrip()
            line = below
        line += item + end + ("" if end == "]" else " ")
    yield line


def _block(text: str) -> str | None:
    """The header of a literal block for a text of several lines; None where it needs quotes."""
    body = text.rstrip("\n")
    if "\n" not in body and not (text.endswith("\n") and len(body) > 40):
        return None
    if not body or body[0] in " \t\n" or any(not char.isprintable() and char not in "\n\t" for char in text) or "\ufeff" in text:
        return None
    ends = len(text) - len(body)
    return "|" if ends == 1 else "|-" if not ends else "|+"


def scalar(text: str, in_flow: bool = False) -> str:
    """Plain where YAML reads it back as this very text, in quotes otherwise."""
    plain = _PLAIN.fullmatch(text) and text == text.strip() and not re.search(r":(\s|$)|\s#", text) and text.isprintable()
    if plain and in_flow:
        plain = _SAFE_IN_FLOW.fullmatch(text) and not re.search(r":[^/\w.=-]", text)
    if plain:
        try:
            if written_scalar(text) == text:
                return text
        except ScalarError:
            pass
    return json.dumps(text, ensure_ascii=False)


def flow_scalar(value: Any) -> str:
    """A number, a truth value, nothing, or an empty list or mapping."""
    return json.dumps(value, ensure_ascii=False)
