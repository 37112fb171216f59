from __future__ import annotations

import pytest

from trainwright_trainer.contract import StaticRendezvous, World
from trainwright_trainer.failures import TopologyMismatchError
from trainwright_trainer.place import Place, place_from

WORLD = World(
    nodes=2, processes_per_node=2, device="cpu", node_index_env="X",
    rendezvous=StaticRendezvous(host="h", port=29500), control_port=29400,
)
GOOD = {
    "RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "1", "MASTER_ADDR": "h",
    "MASTER_PORT": "1",
}


def test_place() -> None:
    place = place_from(GOOD, WORLD)
    assert place == Place(rank=3, world_size=4, local_rank=1, node=1)
    assert not place.leads
    assert not place.leads_node


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("RANK", None, "RANK is not set"),
        ("MASTER_ADDR", None, "MASTER_ADDR is not set"),
        ("RANK", "three", "RANK is 'three', not a number"),
        ("WORLD_SIZE", "8", r"WORLD_SIZE is 8, and world\.nodes x world\.processes_per_node is 2 x 2 = 4"),
        ("RANK", "4", "RANK 4 is not below WORLD_SIZE 4"),
        ("LOCAL_RANK", "2", "LOCAL_RANK 2 is not below"),
    ],
)
def test_refusals(name: str, value: str | None, message: str) -> None:
    environment = {key: text for key, text in (GOOD | {name: value or ""}).items() if text}
    with pytest.raises(TopologyMismatchError, match=message):
        place_from(environment, WORLD)
