"""The comments at the top of a file of ``dist/``: what it is made from, and the plan's stated facts, one a line.

A plain ``git diff`` of the file shows them first, in training terms. They are the facts of the run's record, in the order of
the plan, and no estimates. Whatever a run's text holds, a line is printable ASCII: some readers of YAML end a comment at U+0085,
U+2028 or U+2029, and an object could begin there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from trainwright.model import Fact
from trainwright.report.facts import Block, block, label, shown, told

_COMMENTS = re.compile(r"(?:#[^\n]*\n)*")
"""Lines of comments at the start of a file. The first line of an object that cdk8s writes is a key."""


def run_header(source: str, facts: Mapping[str, Fact]) -> str:
    """Of a run's file.

    Args:
        source: the file that a person edits to change this one.
        facts: what the plan states.
    """
    said = told(facts)
    blocks: dict[Block, list[str]] = {}
    for key, value in said.items():
        blocks.setdefault(block(key), []).append(f"{label(key)}: {shown(value)}")
    if "gpus" not in said:
        blocks.setdefault(Block.MACHINES, []).insert(0, f"{label('gpus')}: none")
    made = f"Made by trainwright from {source}. Edit that file, and do not edit this one."
    return _comment([made, *(line for _, lines in sorted(blocks.items()) for line in ("", *lines))])


def foundation_header(source: str) -> str:
    """Of a foundation's file.

    Args:
        source: the profile that it is made from.
    """
    return _comment([f"Made by trainwright from {source} and the runs of this namespace. Do not edit it."])


def argo_cd_header(source: str) -> str:
    """Of what Argo CD is told.

    Args:
        source: the file that a person edits to change it.
    """
    return _comment([f"Made by trainwright from {source}, the profiles and the runs. Edit those, and do not edit this one."])


def split_header(text: str) -> tuple[str, str]:
    """The comments at the top of a file, and the rest."""
    found = _COMMENTS.match(text)
    end = found.end() if found else 0
    return text[:end], text[end:]


def _comment(lines: Iterable[str]) -> str:
    return "".join(f"# {_ascii(line)}".rstrip() + "\n" for line in lines)


def _ascii(text: str) -> str:
    """On one line, with everything but printable ASCII escaped."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(one if " " <= one <= "~" else ascii(one)[1:-1] for one in text)
