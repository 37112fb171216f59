"""Every table between ``<!-- generated: NAME -->`` and ``<!-- end -->`` is what the code says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.compiler.example import EVERY_TARGET
from tests.compiler.public.cases import additions_list, never_table, objects_table, table
from tests.compiler.public.keys import key_tables
from tests.compiler.test_handshake import TOPOLOGIES
from tests.conformance_table import conformance_table
from tests.pages import DOCS, PAGES, generated, regenerate
from tests.tables import (
    engine_table,
    feature_table,
    finding_tables,
    gang_table,
    incident_table,
    matrix_table,
    operator_table,
    recovery_table,
    reference,
    refusal_list,
    scaling_table,
    scheduler_table,
    target_sections,
    word_table,
)

from trainwright.cluster import Cluster
from trainwright.gitops.model import GitOps
from trainwright.handshake import Binding, EnvironmentChannel, Gang
from trainwright.operators import TARGETS
from trainwright.policy import Policy
from trainwright.run import Run

ALL = list(TARGETS.values())
TEXTS: dict[str, Callable[[], str]] = {
    "run": lambda: reference(Run, "A run", {}),
    "policy": lambda: reference(Policy, "A policy", {}),
    "cluster": lambda: reference(Cluster, "A cluster", {"Monitoring": "monitoring.md", "Dashboard": "monitoring.md"}),
    "gitops": lambda: reference(GitOps, "Keys of the file", {}),
    "operators": operator_table,
    "schedulers": scheduler_table,
    "features": feature_table,
    "matrix": lambda: matrix_table(TOPOLOGIES, ALL, EVERY_TARGET),
    "incidents": lambda: incident_table(TOPOLOGIES, ALL, EVERY_TARGET),
    "recovery": lambda: recovery_table(TOPOLOGIES, ALL, EVERY_TARGET),
    "refusals": lambda: refusal_list(TOPOLOGIES, ALL, EVERY_TARGET),
    "scaling": scaling_table,
    "findings": finding_tables,
    "words": lambda: word_table("Run"),
    "words-cluster": lambda: word_table("Cluster"),
    "engines": engine_table,
    "conformance": conformance_table,
    "public": table,
    "additions": additions_list,
    "never": never_table,
    "objects": objects_table,
    "manifest-keys": key_tables,
    "targets": lambda: target_sections(ALL),
    "gangs": lambda: gang_table(TOPOLOGIES, ALL, EVERY_TARGET),
}
COLUMNS = {  # of the table of bindings in docs/architecture.md
    "Indexed Job": ("indexed-job", "ddp"),
    "MPIJob": ("mpi-job", "horovod"),
    "TrainJob": ("train-job", "ddp"),
    "PyTorchJob, elastic": ("pytorch-job", "ddp, elastic"),
}
MAKERS = {"the run's own PodGroup": Gang.OURS, "the operator's flag": Gang.OPERATOR, "the runtime's policy": Gang.OBJECTS}
PLACES = [(page, name) for page in PAGES for name in generated(page)]


def test_every_text_has_its_place() -> None:
    assert sorted(name for _, name in PLACES) == sorted(TEXTS)


@pytest.mark.parametrize(("page", "name"), PLACES, ids=[name for _, name in PLACES])
def test_a_text_is_what_the_code_says(page: Path, name: str, pytestconfig: pytest.Config) -> None:
    wanted = TEXTS[name]()
    if pytestconfig.option.update_snapshots:
        regenerate(page, name, wanted)
    assert generated(page)[name] == wanted, f"{page.name} is not what the code says: pytest tests/docs --snapshot-update fixes it"


def test_the_bindings_are_those_of_the_targets() -> None:
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if "|" in line]
    rows = {first: others for first, *others in lines}
    assert rows[""] == list(COLUMNS)
    for column, (target, topology) in enumerate(COLUMNS.values()):
        binding = TARGETS[target].bind(TOPOLOGIES[topology].needs(), EVERY_TARGET)
        assert isinstance(binding, Binding)
        assert all(f"`{role.name}`" in rows["roles"][column] for role in binding.roles)
        assert f"`{binding.rank_zero_host}`" in rows["rank 0's host"][column]
        assert ("fixed" in rows["port of it"][column]) == binding.fixed_port
        assert (f"`{binding.node_index_env}`" in rows["pod index"][column]) == (binding.node_index_env is not None)
        assert ("mpirun" in rows["environment reaches ranks"][column]) == (binding.environment is EnvironmentChannel.LAUNCHER)
        assert MAKERS[rows["the gang is made by"][column]] is binding.gang
