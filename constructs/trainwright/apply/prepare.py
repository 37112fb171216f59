"""From a compiled project and what is in a cluster to what an apply would do in one namespace."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trainwright.apply.before import after, before, in_the_way, only, running
from trainwright.apply.cluster import objects_there, stored_inventory, unserved
from trainwright.apply.inventory import FOUNDATION, Inventory
from trainwright.apply.plan import Live, Plan, Wanted, plan
from trainwright.live.kubectl import Kubectl, Object, Resource
from trainwright.manifest.kinds import ObjectKey
from trainwright.project.built import Build
from trainwright.review import Review, review


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything that is known before anybody is asked."""

    kubectl: Kubectl
    inventory: Inventory
    live: Live
    resources: Mapping[tuple[str, str], Resource]
    runs: frozenset[str]
    """That this is about: all that are wanted or were made here, or those of them that were asked for."""
    known: frozenset[str]
    """All that are wanted or were made here."""
    plan: Plan
    review: Review
    rivals: Mapping[str, Sequence[str]]
    """Run that starts -> other runs that were made here and save where it would."""


def prepare(
    root: Path, build: Build, kubectl: Kubectl, inventory: Inventory, asked: Collection[str], shown: tuple[str, str]
) -> Prepared:
    """Read the cluster, and compare.

    Args:
        root: the project's folder, all of it committed.
        build: the project, compiled.
        kubectl: with the namespace.
        inventory: of the namespace, empty.
        asked: runs; all if there are none.
        shown: what people call the cluster, and the commit.

    Raises:
        KubectlError: where the cluster cannot be read.
    """
    inventory = inventory.read(stored_inventory(kubectl, inventory.name))
    everything = wanted_objects(build, inventory)
    known = frozenset(one.owner for one in everything if one.owner) | frozenset(run for run in inventory.made if run)
    runs = known & frozenset(asked) if asked else known
    wanted = [one for one in everything if one.owner in runs or one.owner == FOUNDATION]
    manifests = [one.manifest for one in wanted]
    kinds = {entry.api_version for made in inventory.made.values() for entry in made.entries}
    resources = kubectl.resources(sorted(kinds | {one["apiVersion"] for one in manifests}))
    absent = unserved(resources, manifests)
    live = {} if absent else objects_there(kubectl, _needed(resources, inventory, manifests), manifests)
    found = plan(inventory, [] if absent else wanted, live, runs, whole=not asked)
    found.refused += absent
    base = before(root, inventory, live, shown[0])
    head = after(root, inventory, runs, shown[1], beside=base)
    rivals = in_the_way(base, head, found.starting)
    found.refused += _not_leaving(rivals, found, running(inventory, live))
    return Prepared(
        kubectl, inventory, live, resources, runs, known, found, review(only(base, runs), only(head, runs)), rivals
    )


def wanted_objects(build: Build, inventory: Inventory) -> list[Wanted]:
    """The objects of a namespace in ``dist/``, the foundation's first, marked as ours."""
    key = f"{inventory.cluster}/{inventory.namespace}"
    outputs = [one for one in build.outputs.values() if one.foundation == key]
    return [Wanted(one.run or FOUNDATION, inventory.marked(manifest))
            for one in sorted(outputs, key=lambda one: one.run or "") for manifest in one.manifests]


def _needed(
    resources: Mapping[tuple[str, str], Resource], inventory: Inventory, manifests: Sequence[Object]
) -> dict[tuple[str, str], Resource]:
    """Of all kinds that the groups have, those that are wanted or were made."""
    kinds = {(one["apiVersion"], one["kind"]) for one in manifests}
    kinds |= {entry[:2] for made in inventory.made.values() for entry in made.entries}
    return {kind: resources[kind] for kind in kinds if kind in resources}


def _not_leaving(rivals: Mapping[str, Sequence[str]], found: Plan, running: Mapping[str, str]) -> list[str]:
    """Runs that would start where others save that stay."""
    leaving = {ObjectKey.of(gone.live).name for gone in found.remove}
    return [
        f"{run} would save where {other} does, which is in the cluster: both would train in one directory; end {other} first"
        for run, others in rivals.items() for other in others if running.get(other) not in leaving
    ]
