"""The golden fleet: identities that users' running jobs depend on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import get_args

import pytest
from tests.compiler.compiling import TODAY
from tests.compiler.fleets import FLEET, IDENTITIES, fleet, identities
from tests.compiler.objects import assert_accepted
from tests.compiler.scenarios.committed import project

from trainwright.compile import compile_run
from trainwright.findings import Severity
from trainwright.handshake import Gang
from trainwright.identity import PLACEHOLDER
from trainwright.operators import TARGETS
from trainwright.project.build import build_project
from trainwright.project.load import Project, load_sources
from trainwright.topology import DDP, JAX, MPI, Horovod, Independent, MultiWorkerMirrored, ParameterServer, Ray, XGBoost, ZeRO

TOPOLOGIES = (DDP, ZeRO, Horovod, MultiWorkerMirrored, XGBoost, Ray, Independent, MPI, JAX, ParameterServer)

MOVED = """\
The identity of these runs moved, though nothing in their own files did:

  {runs}

The hash is part of the names of a run's objects. With this change every user's run of the same kind gets a new name: Argo CD
would remove the running job and start another one. That is a breaking change.

If it is not intended, take back what changed the objects (a default, a key, an order, the projection in identity.py).
If it is intended: raise PROJECTION in constructs/trainwright/identity.py where the projection itself changed, say so in the
release notes (users run `trainwright roll`), and write the new identities with `python -m tests.compiler.fleets`.
"""

LOST = """\
These runs would look for their checkpoints elsewhere, and start again at step 0:

  {runs}

The lineage in the path hashes model, optimizer and data. A change of it loses the progress of every running job of every user:
keep it as it is, whatever else changes.
"""


def test_the_fleet_compiles() -> None:
    assert [finding for finding in fleet().findings if finding.severity is Severity.ERROR] == []
    assert {path.stem for path in (FLEET / "charts" / "runs").iterdir()} == fleet().runs.keys()


@pytest.mark.parametrize("name", sorted(fleet().runs))
def test_the_last_identity_of_a_run_changes_nothing(name: str) -> None:
    """Whether it has it still, has another one now, or its record was edited by hand."""
    built = fleet().runs[name]
    compiled, locator = built.compiled, built.file.locator(built.cluster)
    for last in (compiled.identity, "zzzzzzzz", PLACEHOLDER, "", "../" * 30):
        again = compile_run(compiled.run, compiled.cluster, locator, TODAY, last)
        assert (again.identity, again.manifests, again.findings) == (compiled.identity, compiled.manifests, compiled.findings)


def test_every_target_and_every_topology_is_in_the_fleet() -> None:
    runs = [built.compiled for built in fleet().runs.values()]
    locked = {built.compiled.target.name for built in project().runs.values()}  # by charts/lock/
    assert {compiled.target.name for compiled in runs} | locked == TARGETS.keys()
    kinds = {kind for topology in TOPOLOGIES for kind in get_args(topology.model_fields["kind"].annotation)}
    assert {compiled.run.topology.kind for compiled in runs} == kinds
    assert {compiled.run.workload.kind for compiled in runs} == {"trainer", "boosting", "script", "command"}
    assert {compiled.plan.gang.made_by for compiled in runs if compiled.plan.gang} == set(Gang)


def test_no_identity_moves() -> None:
    committed, now = json.loads(IDENTITIES.read_text(encoding="utf-8")), identities()
    assert now.keys() == committed.keys()
    moved = [
        f"{name}: {committed[name]['hash']} -> {now[name]['hash']}"
        for name in now
        if now[name]["hash"] != committed[name]["hash"]
    ]
    assert not moved, MOVED.format(runs="\n  ".join(moved))


def test_no_lineage_moves() -> None:
    committed, now = json.loads(IDENTITIES.read_text(encoding="utf-8")), identities()
    read_by_lineage = [name for name, built in fleet().runs.items() if built.file.run.trainer]
    lost = [
        f"{name}: {committed[name]['checkpoints']} -> {now[name]['checkpoints']}"
        for name in read_by_lineage if now[name]["checkpoints"] != committed[name]["checkpoints"]
    ]
    assert not lost, LOST.format(runs="\n  ".join(lost))


@pytest.mark.parametrize("name", sorted(path.stem for path in (IDENTITIES.parent / "charts" / "runs").iterdir()))
def test_what_the_fleet_compiles_to_is_valid(name: str) -> None:
    built = fleet().runs[name]
    for manifest in built.output.manifests:
        assert_accepted(manifest, built.cluster.cluster.kubernetes)


def test_foundations_are_valid() -> None:
    """Of every profile, those with something in them: claims and queues to create, or what runs share."""
    assert fleet().foundations.keys() >= {"bare/training", "edge/a", "fabric/research", "trainer/training"}
    kinds = {manifest["kind"] for built in fleet().foundations.values() for manifest in built.output.manifests}
    assert kinds == {
        "Namespace", "PersistentVolumeClaim", "LocalQueue", "TrainingRuntime", "Job", "PodMonitor", "PrometheusRule", "ConfigMap",
    }
    for key, built in fleet().foundations.items():
        for manifest in built.output.manifests:
            assert_accepted(manifest, fleet().clusters[key.partition("/")[0]].cluster.kubernetes)


def test_a_run_that_is_told_its_own_hash_is_another_run(tmp_path: Path) -> None:
    """What the user writes may hold the hash of the run as it was before, and is hashed as it is written."""
    shutil.copytree(FLEET, tmp_path / "fleet")
    before, file = fleet().runs["command"], tmp_path / "fleet" / "charts" / "runs" / "command.yaml"
    assert before.compiled.plan.checkpoint is not None
    text = file.read_text(encoding="utf-8")
    told = text.replace("kind: command, ", f"kind: command, resume_from: {before.compiled.plan.checkpoint.directory}, ")
    assert told != text
    file.write_text(told, encoding="utf-8")
    build = build_project(load_sources(Project(tmp_path / "fleet")), TODAY)
    assert build.runs["command"].compiled.identity != before.compiled.identity
