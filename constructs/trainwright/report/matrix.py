"""Which topology goes to which target, and what the pair keeps: read off the handshake."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from trainwright.handshake import Binding, Gang, Refusal
from trainwright.report.table import table
from trainwright.target import Target
from trainwright.topology import Topology

SHORT = {
    "exit codes": "codes",
    "SIGTERM save": "save",
    "restart of all ranks together": "restart",
    "exact resume": "resume",
    "resume at another size": "reshard",
}
"""Guarantees in the words of a narrow table."""


def matrix_table(topologies: Mapping[str, Topology], targets: Sequence[Target]) -> str:
    """A Markdown table: a row for each topology, a column for each target, the guarantees or a dash in each cell."""
    head = ["topology", *(target.title for target in targets)]
    return table(head, [[name, *(_cell(topology, target) for target in targets)] for name, topology in topologies.items()])


def refusal_list(topologies: Mapping[str, Topology], targets: Sequence[Target]) -> str:
    """A Markdown table: why each pair without a binding has none, a reason once for all topologies that share it."""
    return table(("target", "refuses", "because"), list(_refusals(topologies, targets)))


def gang_table(topologies: Mapping[str, Topology], targets: Sequence[Target]) -> str:
    """A Markdown table: who makes the group of pods that start together."""
    makers: dict[Gang, list[str]] = {}
    for target in targets:
        answers = [target.bind(topology.needs()) for topology in topologies.values()]
        for maker in dict.fromkeys(answer.gang for answer in answers if isinstance(answer, Binding)):
            makers.setdefault(maker, []).append(target.title)
    return table(("target", "who makes the group"), [(", ".join(titles), maker.value) for maker, titles in makers.items()])


def _cell(topology: Topology, target: Target) -> str:
    answer = target.bind(topology.needs())
    if isinstance(answer, Refusal):
        return "–"
    kept = {guarantee.value for guarantee in answer.guarantees & topology.keeps}
    if kept >= SHORT.keys():
        return "all"
    return ", ".join(short for guarantee, short in SHORT.items() if guarantee in kept) or "runs"


def _refusals(topologies: Mapping[str, Topology], targets: Sequence[Target]) -> Iterator[tuple[str, str, str]]:
    for target in targets:
        reasons: dict[str, list[str]] = {}
        for name, topology in topologies.items():
            needs = topology.needs()
            answer = target.bind(needs)
            if isinstance(answer, Refusal):
                reason = answer.reason.replace(f"a {needs.rendezvous.value} rendezvous", "their rendezvous")
                reasons.setdefault(reason, []).append(name)
        for reason, names in reasons.items():
            yield target.title, "; ".join(names), reason
