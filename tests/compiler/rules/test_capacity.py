"""What pods ask for, against what a node of their pool can give."""

from __future__ import annotations

import pytest
from tests.compiler.example import Data, codes, findings
from tests.compiler.rules.test_pod import container
from tests.compiler.targets import on, profile_for

from trainwright.rules.pods.capacity import Amount, asked_by
from trainwright.units import GIB


def test_a_pod_fits_a_node_with_room_for_the_kubelet() -> None:
    assert codes({"resources": {"cpu": 193}}) == ["TW308"]
    assert codes({"resources": {"cpu": 191, "memory": "1999Gi"}}) == []


@pytest.mark.parametrize(("resources", "words"), [({"cpu": 192}, "172.8 at most"), ({"memory": "2000Gi"}, "1800Gi at most")])
def test_a_whole_node_is_more_than_pods_can_have(resources: Data, words: str) -> None:
    (finding,) = findings({"resources": resources})
    assert (finding.code, finding.where.pointer) == ("TW308", f"/resources/{next(iter(resources))}")
    assert words in finding.fix


def test_shared_memory_is_memory() -> None:
    found = findings({"resources": {"memory": "16Gi", "shared_memory": "16Gi"}})
    assert [finding.code for finding in found] == ["TW221", "TW308"], "and its ranks are short of memory too"
    assert "shared memory of 16Gi" in found[1].message


def test_scratch_is_ephemeral_storage() -> None:
    mounts: Data = {"/fast": {"scratch": "100Gi"}, "/small": {"scratch": "50Gi"}}
    (found,) = findings({"resources": {"ephemeral_storage": "50Gi"}, "mounts": mounts})
    assert (found.code, found.where.pointer) == ("TW308", "/mounts/~1fast")
    assert "ephemeral storage of 50Gi" in found.message
    assert findings({"mounts": mounts}) == []


SMALL: Data = {"node_pools": {"small": {"cpus": 2, "memory": "8Gi"}}}
CPUS: Data = {"kind": "ray", "nodes": 1, "gpus_per_node": 0, "version": "2.52.0"}


def test_the_head_of_ray_fits_a_node_too() -> None:
    run = on("ray-job", topology=CPUS, node_pool="small", resources={"cpu": 1, "memory": "2Gi"})
    found = [one for one in findings(run, profile_for("ray-job") | SMALL) if one.code == "TW308"]
    assert ["the head's pod asks for 4 CPU;" in one.message for one in found] == [True, False]
    assert "16.0 GiB" in found[1].message
    assert {one.where.pointer for one in found} == {"/node_pool"}
    large: Data = {"node_pools": {"small": {"cpus": 8, "memory": "32Gi"}}}
    assert "TW308" not in codes(run, profile_for("ray-job") | large)


def test_the_launcher_of_mpirun_fits_a_node_too() -> None:
    one: Data = {"node_pools": {"small": {"cpus": 1, "memory": "2Gi"}}}
    topology: Data = {"kind": "horovod", "nodes": 2, "gpus_per_node": 0}
    run = on("mpi-job", topology=topology, node_pool="small", resources={"cpu": "500m", "memory": "1Gi"})
    found = [finding for finding in findings(run, profile_for("mpi-job") | one) if finding.code == "TW308"]
    assert found
    assert all("the launcher's pod" in finding.message for finding in found)


def test_an_init_container_is_part_of_its_pod() -> None:
    """It runs alone, but the scheduler finds a node for the largest of them."""
    huge = {"cpu": 500, "memory": "1Gi"}
    init = container(resources={"requests": huge, "limits": huge})
    assert codes({"overrides": {"pod": {"node": {"initContainers": [init]}}}}) == ["TW308"]


def asks(cpu: int, **fields: str) -> Data:
    return {"resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}, **fields}


def test_what_the_scheduler_reserves() -> None:
    pod: Data = {
        "initContainers": [asks(3), asks(2, restartPolicy="Always"), asks(9)],
        "containers": [asks(4), asks(1)],
    }
    assert asked_by(pod) == Amount(11_000, 3 * GIB), "the last init container runs beside the sidecar"
    assert asked_by({"containers": [asks(4)]}) == Amount(4000, GIB)
    assert asked_by({"containers": [{}, asks(4)]}) == Amount(4000, GIB), "of what is not stated nothing is reserved"
