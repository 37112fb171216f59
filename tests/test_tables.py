"""The table of topologies and targets, read off the handshake."""

from __future__ import annotations

from pydantic import TypeAdapter
from tests.compiler.example import EVERY_TARGET
from tests.tables import SHORT, matrix_table, refusal_list

from trainwright.handshake import Guarantee
from trainwright.operators import TARGETS
from trainwright.topology import AnyTopology, Topology


def topology(**fields: object) -> Topology:
    made: Topology = TypeAdapter(AnyTopology).validate_python({"nodes": 4, "gpus_per_node": 8, **fields})
    return made


TOPOLOGIES = {"ddp": topology(kind="ddp"), "horovod": topology(kind="horovod"), "ray": topology(kind="ray")}


def rows(table: str) -> list[list[str]]:
    """Of a Markdown table, without the line below its head."""
    lines = [[cell.strip() for cell in line.strip("| \n").split(" | ")] for line in table.splitlines()]
    return [lines[0], *lines[2:]]


def cells() -> dict[tuple[str, str], str]:
    head, *below = rows(matrix_table(TOPOLOGIES, list(TARGETS.values()), EVERY_TARGET))
    return {(row[0], title): cell for row in below for title, cell in zip(head[1:], row[1:], strict=True)}


def test_every_guarantee_has_a_short_word() -> None:
    of_scripts = {Guarantee.SCRIPT_RESUME, Guarantee.SCRIPT_STEPS}
    assert SHORT.keys() == {guarantee.value for guarantee in Guarantee if guarantee not in of_scripts}


def test_a_cell_says_what_is_kept_or_has_a_dash() -> None:
    said = cells()
    assert len(said) == len(TOPOLOGIES) * len(TARGETS)
    assert said["ddp", "Indexed Job"] == "all"
    assert said["ddp", "MPIJob"] == "–"
    assert said["horovod", "MPIJob"] == "save, restart, resume, reshard"
    assert [title for (name, title), cell in said.items() if name == "ray" and cell != "–"] == ["RayJob"]


def test_every_dash_has_a_reason_and_the_same_reason_stands_once() -> None:
    told = [
        (title, names.split(", "), reason)
        for title, names, reason in rows(refusal_list(TOPOLOGIES, list(TARGETS.values()), EVERY_TARGET))[1:]
    ]
    assert {(name, title) for title, names, _ in told for name in names} == {
        pair for pair, cell in cells().items() if cell == "–"
    }
    assert len({(title, reason) for title, _, reason in told}) == len(told)
    assert all(len(reason) > 20 for _, _, reason in told)
