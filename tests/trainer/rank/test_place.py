from __future__ import annotations

import pytest

from trainwright_trainer.contract import World
from trainwright_trainer.contract.failures import TopologyMismatchError
from trainwright_trainer.contract.spec import ElasticRendezvous, MPIRendezvous, StaticRendezvous
from trainwright_trainer.rank.place import Place, place_from

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


ELASTIC = World(
    nodes=2, processes_per_node=2, device="cpu",
    rendezvous=ElasticRendezvous(kind="c10d", host="h", port=29500, min_nodes=1, max_nodes=3),
)


@pytest.mark.parametrize("size", [2, 4, 6])
def test_an_elastic_world_has_several_sizes(size: int) -> None:
    assert place_from(GOOD | {"RANK": "1", "WORLD_SIZE": str(size)}, ELASTIC).world_size == size


@pytest.mark.parametrize("size", [1, 3, 8])
def test_but_not_any(size: int) -> None:
    with pytest.raises(TopologyMismatchError, match=rf"WORLD_SIZE is {size}, .* a multiple of 2 from 2 to 6"):
        place_from(GOOD | {"RANK": "0", "WORLD_SIZE": str(size)}, ELASTIC)


def test_horovod_meets_over_mpi_itself() -> None:
    world = World(
        nodes=2, processes_per_node=2, device="cpu", rendezvous=MPIRendezvous(kind="mpi-hostfile", role_env="ROLE", hostfile="/h")
    )
    environment = {name: value for name, value in GOOD.items() if not name.startswith("MASTER")}
    assert place_from(environment, world).rank == 3
