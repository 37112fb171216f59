"""The port plan: the usual numbers in a network of a pod's own, a block of its own for each run on the node's."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.compiler.example import RUN, Data, compiled
from tests.compiler.findings.page import overlay

from trainwright.handshake import Ports
from trainwright.plan.ports import EACH, FIRST, LAST, plan_ports
from trainwright.run import Run

OPEN: Data = {"namespaces": {"training": {"pod_security": "privileged"}}}


def ports(**fields: object) -> Ports:
    return plan_ports(Run.model_validate(overlay(RUN, fields)))


def test_in_its_own_network_a_pod_has_the_usual_ports() -> None:
    assert ports() == ports(run="another") == Ports(rendezvous=29500, control=29400, http=9400, ssh=2222)


def test_on_the_nodes_network_a_run_has_four_ports_in_a_row_that_follow_from_its_name() -> None:
    mine = ports(host_network=True)
    assert mine == ports(host_network=True, attempt=7, image="registry.example.com/x@sha256:" + "a" * 64)
    numbers = [mine.rendezvous, mine.control, mine.http, mine.ssh]
    assert numbers == list(range(numbers[0], numbers[0] + EACH))
    assert ports(host_network=True, run="another") != mine
    assert ports(host_network=True, namespace="another") != mine


def test_blocks_lie_below_node_ports_do_not_overlap_and_are_spread() -> None:
    taken = [ports(host_network=True, run=f"run-{number}") for number in range(500)]
    assert all(each.rendezvous >= FIRST and each.ssh <= LAST < 30_000 for each in taken)
    assert all((each.rendezvous - FIRST) % EACH == 0 for each in taken), "two blocks are the same or have nothing in common"
    # 500 names on 2,500 places: about 45 pairs meet by chance, and no place is taken by many
    counts = Counter(each.rendezvous for each in taken)
    assert len(counts) > 400
    assert max(counts.values()) <= 5


@pytest.mark.parametrize("target", ["indexed-job", "job-set", "pytorch-job"])
def test_the_plan_the_specification_and_the_pods_say_the_same(target: str) -> None:
    operators: Data = {"jobset": {"version": "0.12"}, "training-operator": {"version": "1.9"}}
    result = compiled({"target": target, "host_network": True}, OPEN | {"operators": operators})
    planned, spec = ports(target=target, host_network=True), result.resolution.spec
    assert spec is not None
    assert (spec.world.meeting.port, spec.world.control_port, spec.http_port) == (
        planned.rendezvous,
        planned.control,
        planned.http,
    )
    for process in result.resolution.processes.values():
        assert [port.number for port in process.ports] == [planned.rendezvous, planned.control, planned.http]
