"""A pod knows which node it is, or says what is wrong with its index."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.trainer.supervisor.conftest import specification

from trainwright_trainer.contract import ExitCode, World
from trainwright_trainer.contract.failures import PodError
from trainwright_trainer.supervisor.place import pod_place


@pytest.fixture
def world(tmp_path: Path) -> World:
    return specification(tmp_path, 4, 2, None, "127.0.0.").world


def test_index_and_address(world: World) -> None:
    place = pod_place({"NODE_INDEX": "3", "TRAINWRIGHT_BIND_ADDRESS": "10.0.0.7"}, world)
    assert (place.node, place.bind, place.leads) == (3, "10.0.0.7", False)
    place = pod_place({"NODE_INDEX": "0"}, world)
    assert (place.node, place.bind, place.leads) == (0, "0.0.0.0", True)


@pytest.mark.parametrize(("environ", "sentence"), [
    ({}, "NODE_INDEX is not set in this pod"),
    ({"NODE_INDEX": "two"}, "NODE_INDEX is 'two' in this pod; it must be a number from 0 to 3"),
    ({"NODE_INDEX": "-1"}, "it must be a number from 0 to 3"),
    ({"NODE_INDEX": ""}, "it must be a number from 0 to 3"),
    ({"NODE_INDEX": "²"}, "it must be a number from 0 to 3"),
    ({"NODE_INDEX": "4"}, "NODE_INDEX is 4 in this pod and world.nodes is 4, so the index must be at most 3"),
])
def test_refusals(world: World, environ: dict[str, str], sentence: str) -> None:
    with pytest.raises(PodError) as caught:
        pod_place(environ, world)
    assert caught.value.exit_code is ExitCode.TOPOLOGY_MISMATCH
    assert sentence in str(caught.value)
