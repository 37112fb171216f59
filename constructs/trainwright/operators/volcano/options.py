"""The options of a Volcano Job's plugins, as Go's flag package reads them (volcano at v1.15, pkg/controllers/job/plugins)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

OPTIONS: Mapping[str, Mapping[str, str | int | bool]] = {
    "env": {},
    "svc": {"publish-not-ready-addresses": False, "disable-network-policy": False, "inject-hosts-env": True},
    "ssh": {"ssh-key-file-path": "/root/.ssh", "ssh-private-key": "", "ssh-public-key": "", "ssh-port": 22},
    "mpi": {"master": "master", "worker": "worker", "port": 22},
    "pytorch": {
        "master": "master", "worker": "worker", "port": 23456,
        "wait-master-enabled": False, "wait-master-timeout": 300, "wait-master-image": "busybox:1.36.1",
    },
    "tensorflow": {"ps": "ps", "worker": "worker", "chief": "chief", "evaluator": "evaluator", "port": 2222},
    "ray": {
        "head": "head", "headContainer": "head", "worker": "worker", "workerContainer": "worker",
        "port": 6379, "dashboardPort": 8265, "clientPort": 10001,
    },
    "hcclrank": {"master": "master", "worker": "worker"},
}  # fmt: skip
"""Plugin -> its options, with their defaults."""

_FORMS: Mapping[type, str] = {bool: r"1|0|[tTfF]|true|false|True|False|TRUE|FALSE", int: r"[-+]?\d+"}


def read_options(plugin: str, words: Sequence[str]) -> tuple[dict[str, str], int | None]:
    """The options that a plugin is told, and the word at which it stops to read them, since it does not know it, or its value is
    missing or of another type. Volcano logs that, and goes on with what it has read before.
    """
    told: dict[str, str] = {}
    known = OPTIONS.get(plugin, {})
    index = 0
    while index < len(words) and words[index] != "--":
        option = re.fullmatch(r"--?([^-=][^=]*)(?:=((?s:.*)))?", words[index])
        if option is None or option[1] not in known:
            return told, index
        kind, value, first = type(known[option[1]]), option[2], index
        if value is None and kind is bool:
            value = "true"
        elif value is None:
            index += 1
            value = words[index] if index < len(words) else None
        if value is None or (kind in _FORMS and not re.fullmatch(_FORMS[kind], value)):
            return told, first
        told[option[1]] = str(value[0] in "1tT").lower() if kind is bool else value
        index += 1
    return told, None
