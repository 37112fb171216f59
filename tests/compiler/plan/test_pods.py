"""Where pods go, how they start, and what they listen on."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.compiler.controllers import pods
from tests.compiler.example import RUN, Data, command, compiled, findings
from tests.compiler.findings.page import overlay
from tests.compiler.targets import CASES, carrying, in_gangs, on, profile_for

from trainwright.handshake import Gang, Ports
from trainwright.plan.pods import FIRST_PORT, LAST_PORT, PORTS_PER_RUN, plan_ports
from trainwright.run import Run

OPEN: Data = {"training": {"pod_security": "privileged", "queues": {"gold": {"managed": False}}}}
VOLCANO: Data = {**in_gangs("volcano"), "namespaces": OPEN}
KUEUE: Data = {"kueue": {"version": "0.19.2"}}
BOTH: Data = {"scheduling": {"gang": "volcano", "with_kueue": True}}
MPI = on("mpi-job", topology={"kind": "horovod", "nodes": 3, "gpus_per_node": 8})
RAY = on("ray-job", topology={"kind": "ray", "nodes": 3, "gpus_per_node": 8, "version": "2.52.0"})
ELASTIC = on("pytorch-job", topology={"nodes": 3, "elastic": {"min_nodes": 2, "max_nodes": 5}})


@pytest.mark.parametrize(
    ("run", "minimum", "made_by"),
    [
        ({"topology": {"nodes": 2}}, 2, Gang.OURS),
        ({"target": "job-set", "topology": {"nodes": 7}}, 7, Gang.OURS),
        ({"target": "pytorch-job", "topology": {"nodes": 2}}, 2, Gang.OPERATOR),
        ({"target": "train-job"}, 2, Gang.OBJECTS),
        (ELASTIC, 2, Gang.OPERATOR),
        (MPI, 4, Gang.OPERATOR),
        (MPI | {"topology": MPI["topology"] | {"launcher_is_node": True}}, 3, Gang.OPERATOR),
        (RAY, 4, Gang.LABEL),
    ],
    ids=["Job", "JobSet", "PyTorchJob", "TrainJob", "elastic", "with a launcher", "the launcher is a node", "with a head"],
)
def test_every_pod_is_counted_and_of_an_elastic_run_the_fewest(run: Data, minimum: int, made_by: Gang) -> None:
    gang = compiled(run, VOLCANO).plan.gang
    assert gang is not None
    assert (gang.minimum, gang.made_by, gang.scheduler, gang.scheduler_name) == (minimum, made_by, "volcano", "volcano")


@pytest.mark.parametrize(
    ("run", "cluster", "there"),
    [
        ({}, {}, False),
        ({}, VOLCANO, True),
        ({"gang": False}, VOLCANO, False),
        ({"topology": {"nodes": 1}}, VOLCANO, False),
        ({"topology": {"nodes": 1}, "queue": "gold"}, VOLCANO, True),
        ({"topology": {"nodes": 1}, "queue": "gold"}, VOLCANO | KUEUE, False),
        ({"topology": {"nodes": 1}, "queue": "gold"}, VOLCANO | KUEUE | BOTH, False),
        ({"queue": "gold"}, VOLCANO | KUEUE, False),
        ({"queue": "gold"}, VOLCANO | KUEUE | BOTH, True),
        ({}, VOLCANO | KUEUE, True),
    ],
)
def test_a_run_of_several_pods_is_a_gang_where_nothing_else_admits_it_whole(run: Data, cluster: Data, there: bool) -> None:
    assert (compiled(run, cluster).plan.gang is not None) == there


@pytest.mark.parametrize("target", carrying("ddp"))
def test_in_a_queue_of_volcano_one_pod_is_a_group(target: str) -> None:
    result = compiled({"target": target, "topology": {"nodes": 1}, "queue": "gold"}, VOLCANO)
    assert result.plan.gang is not None
    assert (result.plan.gang.minimum, result.plan.gang.queue) == (1, "gold")
    assert all(pod.spec["schedulerName"] == "volcano" for pod in pods(result.manifests))
    groups = [manifest["spec"] for manifest in result.manifests if manifest["kind"] == "PodGroup"]
    assert groups == ([{"minMember": 1, "queue": "gold"}] if result.plan.gang.made_by is Gang.OURS else [])


def test_a_queue_is_volcanos_where_kueue_does_not_read_it() -> None:
    both = VOLCANO | KUEUE | {"scheduling": {"gang": "volcano", "with_kueue": True}}
    queues = [compiled({"queue": "gold"}, cluster).plan.gang for cluster in (VOLCANO, both)]
    assert [gang.queue if gang else "" for gang in queues] == ["gold", None]


@pytest.mark.parametrize(
    ("scheduling", "name"),
    [
        ({"gang": "volcano"}, "volcano"),
        ({"gang": "coscheduling"}, "scheduler-plugins-scheduler"),
        ({"gang": "coscheduling", "scheduler_name": "gangs"}, "gangs"),
    ],
)
def test_pods_name_their_scheduler(scheduling: Data, name: str) -> None:
    result = compiled({}, {"scheduling": scheduling})
    assert result.manifests[-2]["spec"]["template"]["spec"]["schedulerName"] == name




def ports(**fields: object) -> Ports:
    return plan_ports(Run.model_validate(overlay(RUN, fields)))


@pytest.mark.parametrize(("gpus", "count", "expected"), [(8, 32, "32"), (4, 32, "16"), (1, 32, "4"), (2, 1, "1"), (1, 4, "1")])
def test_a_part_of_a_node_asks_for_its_part_of_the_devices(gpus: int, count: int, expected: str) -> None:
    """Two pods of one node could not both have all of them: the second would stay Pending."""
    fabric = {"kind": "efa", "resource": "vpc.amazonaws.com/efa", "resource_count": count}
    result = compiled({"topology": {"gpus_per_node": gpus}}, {"node_pools": {"h100": {"fabric": fabric}}})
    job = next(one for one in result.manifests if one["kind"] == "Job")
    limits = job["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert limits["vpc.amazonaws.com/efa"] == expected


def test_shared_memory_that_nobody_asked_for_is_made_to_fit() -> None:
    resources = compiled(command("torchrun", "train.py") | {"resources": {"memory": "8Gi"}}).plan.resources
    assert (str(resources.shm), resources.shm_reason) == ("4Gi", "half of the memory: 16Gi would be all of it, or more")
    asked = {"resources": {"memory": "8Gi", "shared_memory": "16Gi"}}
    (finding,) = findings(command("torchrun", "train.py") | asked)
    assert (finding.code, finding.where.pointer) == ("TW308", "/resources/shared_memory")


def test_in_its_own_network_a_pod_has_the_usual_ports() -> None:
    assert ports() == ports(run="another") == Ports(rendezvous=29500, control=29400, http=9400, ssh=2222)


def test_on_the_nodes_network_a_run_has_four_ports_in_a_row_that_follow_from_its_name() -> None:
    mine = ports(host_network=True)
    assert mine == ports(host_network=True, attempt=7, image="registry.example.com/x@sha256:" + "a" * 64)
    numbers = [mine.rendezvous, mine.control, mine.http, mine.ssh]
    assert numbers == list(range(numbers[0], numbers[0] + PORTS_PER_RUN))
    assert ports(host_network=True, run="another") != mine
    assert ports(host_network=True, namespace="another") != mine


def test_blocks_lie_below_node_ports_do_not_overlap_and_are_spread() -> None:
    taken = [ports(host_network=True, run=f"run-{number}") for number in range(500)]
    assert all(each.rendezvous >= FIRST_PORT and each.ssh <= LAST_PORT < 30_000 for each in taken)
    apart = all((each.rendezvous - FIRST_PORT) % PORTS_PER_RUN == 0 for each in taken)
    assert apart, "two blocks are the same or have nothing in common"
    # 500 names on 2,500 places: about 45 pairs meet by chance, and no place is taken by many
    counts = Counter(each.rendezvous for each in taken)
    assert len(counts) > 400
    assert max(counts.values()) <= 5


@pytest.mark.parametrize("target", [target for target in carrying("ddp") if CASES[target].host_network])
def test_the_plan_the_specification_and_the_pods_say_the_same(target: str) -> None:
    result = compiled({"target": target, "host_network": True}, profile_for(target))
    planned, spec = ports(target=target, host_network=True), result.resolution.spec
    assert spec is not None
    assert (spec.world.meeting.port, spec.world.control_port, spec.http_port) == (
        planned.rendezvous,
        planned.control,
        planned.http,
    )
    for process in result.resolution.processes.values():
        assert [port.number for port in process.ports] == [planned.rendezvous, planned.control, planned.http]
