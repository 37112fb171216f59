"""Runs that compile alone and cannot stand together: one name twice, the same ports, data or directory, a policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from trainwright.command.saving import SAVING_OPTIONS
from trainwright.findings import CompileError, Finding, Where
from trainwright.findings.codes import found, milder
from trainwright.findings.locate import escape
from trainwright.manifest.data.fetching import job_name
from trainwright.manifest.kinds import ObjectKey
from trainwright.manifest.template.containers import stated_images
from trainwright.plan.checkpoint import told_in_command
from trainwright.project.built import BuiltRun, Output
from trainwright.project.load import Sources
from trainwright.project.start import Place, claims_of, place_of
from trainwright.report.values import Facts

if TYPE_CHECKING:
    from trainwright.policy import PolicyRun


class Clash(NamedTuple):
    """What several runs must agree on, and do not, or what a policy refuses: of each of them."""

    finding: Finding
    runs: tuple[str, ...]


def shared_ports(runs: Sequence[BuiltRun]) -> list[Clash]:
    """Runs on the node's network that can meet on a node must not listen on the same ports; whole nodes are nobody else's."""
    seen: dict[tuple[str, str, int], BuiltRun] = {}
    clashes = []
    for run in runs:
        plan, gpu = run.compiled.plan, run.compiled.resolution.pool.gpu
        if not run.file.run.host_network or (gpu and plan.world.gpus_per_node == gpu.per_node):
            continue
        other = seen.setdefault((plan.cluster, plan.world.pool, plan.rendezvous.http_port), run)
        if other is not run:
            there = f"on the network of the nodes of pool {plan.world.pool}"
            message = f"{there}, this run has the same ports as run {other.file.run.run}"
            fix = "rename one of the two: ports follow from the name; or take whole nodes"
            finding = found("TW608", run.output.locator.run("/host_network"), message, fix)
            clashes.append(Clash(finding, (other.file.run.run, run.file.run.run)))
    return clashes


def duplicates(outputs: Sequence[Output]) -> list[Clash]:
    """One object may come from one file only, in each cluster."""
    seen: dict[tuple[str, ...], Output] = {}
    clashes = []
    for output in outputs:
        cluster = output.path.partition("/")[0]
        for manifest in output.manifests:
            _, kind, _, name = identity = ObjectKey.of(manifest)
            key = (cluster, *identity)
            if key in seen:
                message = f"{kind} {name} is also made from {seen[key].change}"
                finding = found("TW507", Where(output.change), message, "rename one of the two")
                clashes.append(Clash(finding, tuple(run for run in (seen[key].run, output.run) if run)))
            seen.setdefault(key, output)
    return clashes


def refused_by_policies(sources: Sources, runs: Mapping[str, BuiltRun], today: date) -> Iterator[Clash]:
    """What the platform team's policies find in the runs; a policy that fails is an error of all runs."""
    if not sources.policies:
        return
    from trainwright.policy.check import check_policy  # most projects have none

    seen = [_for_policies(built) for built in runs.values()]
    locators = {name: built.output.locator for name, built in runs.items()}
    for file in sources.policies.values():
        try:
            yield from (Clash(finding, names) for finding, names in check_policy(file, seen, locators, today))
        except CompileError as error:
            yield from (Clash(finding, tuple(runs)) for finding in error.findings)


def _for_policies(built: BuiltRun) -> PolicyRun:
    """A run as it is, or will be, in ``dist/``; objects that it shares with others are in its own."""
    from trainwright.operators.added import pods_made
    from trainwright.policy import PolicyRun

    run, held = built.file.run, built.held
    facts = built.emitted_facts
    own = built.compiled.manifests if held is None else (*held.manifests, *held.needed)
    pods = [pod for manifest in own for pod in pods_made(manifest, built.cluster.cluster)]
    queue, gpus = facts.get("queue"), facts.get("gpus", 0)
    return PolicyRun(
        name=run.run,
        team=str(facts["team"]),
        cluster=run.cluster,
        namespace=run.namespace,
        queue=None if queue is None else str(queue),
        gpus=int(gpus),
        facts=facts,
        manifests=tuple(own),
        pods=tuple(pod.spec for pod in pods),
        added=tuple(container for pod in pods for container in pod.added),
        images=stated_images(built.compiled.resolution),
    )


def fetched_twice(runs: Sequence[BuiltRun]) -> list[Clash]:
    """Two Jobs that fetch the same data differ in tool, credentials or size, and would copy it side by side."""
    seen: dict[tuple[str, str, str, str], tuple[str, str, str]] = {}
    clashes = []
    for run in runs:
        resolution = run.compiled.resolution
        for data in resolution.plan.data:
            place = (resolution.plan.cluster, resolution.plan.namespace, data.claim, data.folder)
            own = (job_name(resolution, data), run.file.run.run, data.path)
            other = seen.setdefault(place, own)
            if other[0] != own[0]:
                finding = found(
                    "TW242",
                    run.output.locator.run(f"/prepare/{escape(data.path)}"),
                    f"run {other[1]} fetches the same data into the same folder ({other[2]}) with other settings",
                    "write the same image, credentials, service_account, region, cpu, memory and image_pull_secrets in both",
                )
                clashes.append(Clash(finding, (other[1], own[1])))
    return clashes


def directories_of_others(runs: Mapping[str, BuiltRun]) -> Iterator[Clash]:
    """Active runs that start from a directory of another, or from their own, and programs whose commands name one to save to.

    Directories that the plan gives are called after their runs, so no two of those are one.
    """
    stated = {name: run.emitted_facts for name, run in runs.items()}
    places = {name: place_of(facts) for name, facts in stated.items() if _on_a_claim(facts, "checkpoints")}
    told = {name: _told(built, stated[name]) for name, built in runs.items()}
    seen: dict[Place, tuple[str, str]] = {}
    for name, facts in sorted(stated.items()):
        locate = runs[name].output.locator
        if _on_a_claim(facts, "resume_from"):
            start, where = place_of(facts, "resume_from"), locate.run("/workload/resume_from")
            for other in (other for other, place in places.items() if _inside(start, place)):
                whose = "its own directory" if other == name else f"the directory of run {other}, which is active"
                fix = "remove resume_from: the program is told its own directory" if other == name else (
                    f"copy what it starts from into a folder of its own, or write `state: done` in {other} first")
                yield Clash(found("TW252", where, f"{name} starts from {facts['resume_from']}, {whose}", fix), (name,))
        for place, (path, option) in told[name].items():
            other, first = seen.setdefault(place, (name, option))
            if other != name:
                message = f"{other} and {name}, both active, save to {path} of claim {place.volume}"
                fix = "give each a directory of its own in its command; TRAINWRIGHT_CHECKPOINT_DIRECTORY is one"
                say = found if {first, option} <= SAVING_OPTIONS else milder
                yield Clash(say("TW252", locate.run("/workload"), message, fix), (other, name))


def _told(built: BuiltRun, facts: Facts) -> dict[Place, tuple[str, str]]:
    """Where on its claims a program saves by what its command says -> path and option there."""
    stated = [({**facts, "told": path}, path, option) for path, option in told_in_command(built.file.run).items()]
    return {place_of(each, "told"): (path, option) for each, path, option in stated if _on_a_claim(each, "told")}


def _on_a_claim(facts: Facts, key: str) -> bool:
    return any(PurePosixPath(str(facts.get(key, ""))).is_relative_to(mount) for mount in claims_of(facts))


def _inside(start: Place, place: Place) -> bool:
    """Whether one is the other or lies in it. Of a whole claim nobody knows which folders in it are whose."""
    if start[:3] != place[:3] or (place.folder == "." and start != place):
        return False
    return PurePosixPath(start.folder).is_relative_to(place.folder)
