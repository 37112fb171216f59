"""Each key of a manifest on the page stands in what the run beside it compiles to, and comes from there."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest
from tests.compiler.findings.page import overlay
from tests.compiler.public.keys import KEYS, Key
from tests.compiler.reading.test_words import CLUSTER, COMMAND, SCRIPT

from trainwright.cluster import Cluster
from trainwright.compile import compile_run
from trainwright.reading import validate_data
from trainwright.reading.document import parse_yaml
from trainwright.run import Run

ROWS = [row for rows in KEYS.values() for row in rows]


def manifests(change: dict[str, Any], row: Key) -> list[Any]:
    base = COMMAND if any(key in row.here for key in ("command", "probes", "exit_codes")) else SCRIPT
    run = overlay(base | ({"target": row.target} if row.target else {}), change)
    compiled = compile_run(validate_data(Run, run, None, {}), validate_data(Cluster, CLUSTER, None, {}), today=date(2026, 7, 1))
    return list(compiled.manifests)


def nodes(value: Any) -> Iterator[Any]:
    """A value, and every one in it."""
    yield value
    for below in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from nodes(below)


def holds(value: Any, part: Any) -> bool:
    """Whether a part of a manifest stands in a value; of a list some items are enough."""
    if isinstance(part, dict):
        return isinstance(value, dict) and all(key in value and holds(value[key], below) for key, below in part.items())
    if isinstance(part, list):
        every = isinstance(value, list) and all(any(holds(item, below) for item in value) for below in part)
        return every or value == part
    return str(value) == str(part)


@pytest.mark.parametrize("row", ROWS, ids=[row.there for row in ROWS])
def test_a_key_of_a_manifest_comes_from_the_key_of_the_run(row: Key) -> None:
    there, here = parse_yaml(row.there, "there").data, parse_yaml(row.here, "here").data
    assert any(holds(node, there) for node in nodes(manifests(here, row)))
    assert not any(holds(node, there) for node in nodes(manifests({}, row)))


def test_no_run_key_is_invented() -> None:
    assert {next(iter(parse_yaml(row.here, "here").data)) for row in ROWS} <= set(Run.model_fields)
