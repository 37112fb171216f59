"""A command that the plan contradicts, rewritten: options that it need not state, and variables that no pod has."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from trainwright.findings import Finding

_OPTION = re.compile(r"(?:with (?=--rdzv))?(--?[A-Za-z][\w-]*)")
_READS = re.compile(r"the command reads ([A-Za-z_]\w*), which no pod")


def rewritten(words: Sequence[str], findings: Sequence[Finding], values: Mapping[str, str]) -> list[str] | None:
    """The command without what the findings are about; None where nothing of it is.

    Args:
        words: of the command and its arguments.
        findings: errors at the command.
        values: variable -> its value in this run, for those that a command of another target reads.
    """
    told = list(words)
    for one in findings:
        if option := _OPTION.match(one.message):
            told = _without(told, option[1])
        elif (read := _READS.search(one.message)) and read[1] in values:
            told = [_with_value(word, read[1], values[read[1]]) for word in told]
    return told if told != list(words) else None


def _without(words: Sequence[str], option: str) -> list[str]:
    """Without an option and its value, in a list of words and in the texts of shells."""
    name = "[-_]".join(map(re.escape, re.split("[-_]", option.lstrip("-"))))
    dashes = option[: len(option) - len(option.lstrip("-"))]
    whole, within = (
        re.compile(rf"{dashes}{name}(=.*)?", re.DOTALL),
        re.compile(rf"(?:^|[ \t]+){dashes}{name}(?:=|[ \t]+)(?:\"[^\"]*\"|'[^']*'|\S+)(?:[ \t]*\\\n)?", re.MULTILINE),
    )
    kept: list[str] = []
    skips = False
    for word in words:
        if skips:
            skips = False
        elif match := whole.fullmatch(word):
            skips = match[1] is None
        else:
            kept.append(within.sub("", word))
    return kept


def _with_value(word: str, name: str, value: str) -> str:
    return re.sub(rf"\$(\({name}\)|\{{{name}(:-[^}}]*)?\}}|{name}(?!\w))", lambda _: value, word)


def values_of(topology: Mapping[str, Any]) -> dict[str, str]:
    """What ranks of torch are told, in a shell: those that follow from the run, and the pod's index by its name."""
    nodes, each = int(topology["nodes"]), int(topology.get("gpus_per_node") or topology.get("processes_per_node") or 1)
    return {
        "MASTER_PORT": "29500", "WORLD_SIZE": str(nodes * each), "NNODES": str(nodes), "NPROC_PER_NODE": str(each),
        "PET_NNODES": str(nodes), "RANK": "${HOSTNAME##*-}", "NODE_RANK": "${HOSTNAME##*-}", "PET_NODE_RANK": "${HOSTNAME##*-}",
        "MASTER_ADDR": "${HOSTNAME%-*}-0", "PET_MASTER_ADDR": "${HOSTNAME%-*}-0",
    }  # fmt: skip
