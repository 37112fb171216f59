"""The golden fleet: identities that users' running jobs depend on."""

from __future__ import annotations

import json

import kubernetes_validate
import pytest
from tests.compiler.fleets import IDENTITIES, fleet, identities

from trainwright.findings import Severity

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
    assert len(fleet().runs) == 15


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
        kubernetes_validate.validate(dict(manifest), built.cluster.cluster.kubernetes, strict=True)


def test_foundations_are_valid() -> None:
    assert fleet().foundations.keys() == {"bare/training", "edge/a", "fabric/research", "fabric/training"}
    for built in fleet().foundations.values():
        for manifest in built.output.manifests:
            kubernetes_validate.validate(dict(manifest), built.cluster.cluster.kubernetes, strict=True)
