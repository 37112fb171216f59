"""The comments at the top of a file of ``dist/``: what it is made from, and the plan's stated facts, one a line.

A plain ``git diff`` of the file shows them first, in training terms. They are the facts of the run's record, in the order of
the plan, and no estimates. Whatever a run's text holds, a line is printable ASCII: some readers of YAML end a comment at U+0085,
U+2028 or U+2029, and an object could begin there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from trainwright.model import Fact
from trainwright.report.words import label, shown, told

_COMMENTS = re.compile(r"(?:#[^\n]*\n)*")
"""Lines of comments at the start of a file. The first line of an object that cdk8s writes is a key."""

_GROUPS = (
    ("team", "cluster", "namespace", "topology", "target", "workload"),
    ("nodes", "gpus", "gpu_hours", "gpus_per_node", "gpu", "processes_per_node", "world_size", "node_pool", "network"),
    ("batch", "tokens_a_step", "tokens", "learning_rate", "epochs", "steps", "task", "precision", "schedule", "optimizer"),
    ("model", "initial_weights", "data", "image", "trainer_version"),
    ("checkpoints",),
    ("queue", "gang", "cpu", "memory", "shared_memory", "grace_seconds", "restarts", "security", "pod_security"),
)
"""Beginnings of keys that stand together; the run's other fields follow, then overrides, then waivers."""
_LAST = ("overrides", "waivers")


def run_header(source: str, facts: Mapping[str, Fact]) -> str:
    """Of a run's file.

    Args:
        source: the file that a person edits to change this one.
        facts: what the plan states.
    """
    said = told(facts)
    groups: dict[int, list[str]] = {}
    for key, value in said.items():
        groups.setdefault(group(key), []).append(f"{label(key)}: {shown(value)}")
    if "gpus" not in said:
        groups.setdefault(1, []).insert(0, "GPUs: none")
    made = f"Made by trainwright from {source}. Edit that file, and do not edit this one."
    return _comment([made, *(line for _, lines in sorted(groups.items()) for line in ("", *lines))])


def foundation_header(source: str) -> str:
    """Of a foundation's file.

    Args:
        source: the profile that it is made from.
    """
    return _comment([f"Made by trainwright from {source} and the runs of this namespace. Do not edit it."])


def split_header(text: str) -> tuple[str, str]:
    """The comments at the top of a file, and the rest."""
    found = _COMMENTS.match(text)
    end = found.end() if found else 0
    return text[:end], text[end:]


def group(key: str) -> int:
    """Which group a fact belongs to, by its key: the order in which people read them."""
    first = key.partition(".")[0]
    if first in _LAST:
        return len(_GROUPS) + 1 + _LAST.index(first)
    return next((number for number, keys in enumerate(_GROUPS) if first in keys), len(_GROUPS))


def _comment(lines: Iterable[str]) -> str:
    return "".join(f"# {_ascii(line)}".rstrip() + "\n" for line in lines)


def _ascii(text: str) -> str:
    """On one line, with everything but printable ASCII escaped."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(one if " " <= one <= "~" else ascii(one)[1:-1] for one in text)
