"""What follows from the fabric, for ranks on several nodes."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from trainwright.cluster import Fabric
from trainwright.handshake import Elastic, Needs, Rendezvous, Success
from trainwright.plan.network import network_variables
from trainwright.variables.rows import VARIABLES


def needs(nodes: int = 2, gpus: int = 8, elastic: Elastic | None = None) -> Needs:
    return Needs(
        nodes=nodes,
        processes_per_node=max(gpus, 1),
        gpus_per_node=gpus,
        rendezvous=Rendezvous.STATIC,
        success=Success.ALL_RANKS,
        elastic=elastic,
    )


def variables(fabric: dict[str, Any], asked: Needs) -> dict[str, str]:
    return {variable.name: variable.value for variable in network_variables("pool", Fabric.model_validate(fabric), asked)}


INFINIBAND = {"kind": "infiniband", "interface": "eth0", "hca": "=mlx5_0,mlx5_1", "resource": "rdma/shared"}
ROCE = INFINIBAND | {"kind": "roce", "gid_index": 3, "traffic_class": 106}
EFA = {"kind": "efa", "interface": "eth0", "resource": "vpc.amazonaws.com/efa"}


@pytest.mark.parametrize(
    ("fabric", "expected"),
    [
        ({}, {}),  # nobody has said that there are no RDMA devices
        ({"kind": "tcp"}, {"NCCL_IB_DISABLE": "1"}),
        ({"interface": "ens5,ens6", "kind": "tcp"}, {"NCCL_SOCKET_IFNAME": "ens5,ens6", "NCCL_IB_DISABLE": "1"}),
        (INFINIBAND, {"NCCL_SOCKET_IFNAME": "eth0", "NCCL_IB_HCA": "=mlx5_0,mlx5_1"}),
        (
            ROCE,
            {"NCCL_SOCKET_IFNAME": "eth0", "NCCL_IB_HCA": "=mlx5_0,mlx5_1", "NCCL_IB_GID_INDEX": "3", "NCCL_IB_TC": "106"},
        ),
        ({"kind": "roce", "gid_index": 0}, {"NCCL_IB_GID_INDEX": "0"}),
        (EFA, {"NCCL_SOCKET_IFNAME": "eth0", "FI_PROVIDER": "efa"}),
        (EFA | {"gpu_direct": True}, {"NCCL_SOCKET_IFNAME": "eth0", "FI_PROVIDER": "efa"}),
        ({"kind": "infiniband", "gpu_direct": False}, {"NCCL_NET_GDR_LEVEL": "LOC"}),
        ({"kind": "tcp", "gpu_direct": False}, {"NCCL_IB_DISABLE": "1"}),
    ],
)
def test_a_fabric_sets_only_what_nobody_finds_out(fabric: dict[str, Any], expected: dict[str, str]) -> None:
    assert variables(fabric, needs()) == expected
    assert variables(fabric, needs(nodes=1)) == {}
    assert all(VARIABLES[name].values.accepts(value) for name, value in expected.items())


def test_without_gpus_only_gloo_is_told_its_interface() -> None:
    assert variables(ROCE, needs(gpus=0)) == {"GLOO_SOCKET_IFNAME": "eth0"}


def test_an_elastic_run_counts_with_its_largest_size() -> None:
    assert variables({"kind": "tcp"}, needs(nodes=1, elastic=Elastic(1, 4))) == {"NCCL_IB_DISABLE": "1"}


def test_each_variable_points_at_its_field() -> None:
    sources = {variable.name: variable.source for variable in network_variables("a/b", Fabric.model_validate(ROCE), needs())}
    assert sources["NCCL_IB_GID_INDEX"] == "cluster:/node_pools/a~1b/fabric/gid_index"


@pytest.mark.parametrize(
    "fabric", [{"kind": "infiniband", "gid_index": 3}, {"kind": "efa", "traffic_class": 1}, {"kind": "tcp", "gpu_direct": True}]
)
def test_a_field_of_another_kind_is_refused(fabric: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="has no"):
        Fabric.model_validate(fabric)
