"""Files of ``dist/`` read back by libyaml, of which the parser of kubectl and Argo CD is a port (sigs.k8s.io/yaml/goyaml.v2).

Every scalar is text, as it is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml
from yaml import Node, YAMLError

try:
    from yaml import CBaseLoader as Loader
except ImportError:  # a PyYAML that was built without libyaml
    from yaml import BaseLoader as Loader

DEEPEST = 200
"""Mappings and lists inside each other. cdk8s writes far fewer; with tens of thousands libyaml's composer ends the process."""


def nodes(text: str) -> Iterator[Node]:
    """The nodes of each document that is not empty, with the lines of every one.

    Raises:
        YAMLError: for what is no YAML, and for what is nested too deeply.
    """
    _refuse_depth(text)
    yield from (node for node in yaml.compose_all(text, Loader) if node is not None)


def values(text: str) -> Iterator[Any]:
    """The value of each document that is not empty; errors as of :func:`nodes`."""
    _refuse_depth(text)
    yield from (value for value in yaml.load_all(text, Loader) if value)


def _refuse_depth(text: str) -> None:
    # in each column, and with each bracket, a mapping and a list begin at most: hardly any text has to be parsed to see it
    columns = max((len(line) - len(line.lstrip("-?: \t")) for line in text.splitlines()), default=0)
    if 2 * (1 + columns + text.count("[") + text.count("{")) <= DEEPEST:
        return
    depth = 0
    for event in yaml.parse(text, Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise YAMLError(f"more than {DEEPEST} mappings and lists are inside each other")
