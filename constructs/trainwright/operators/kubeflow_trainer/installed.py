"""A TrainJob on a runtime of the platform team: the pods that its controller makes of both, and what of them the TrainJob says.

Rules look at the whole pods. They are the runtime's, with the parts of a run's own that a TrainJob of the release may state.
Every value of the runtime has the profile as its source, by which :func:`without_theirs` finds what goes into the TrainJob.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from trainwright.cluster import Cluster
from trainwright.cluster.runtimes import InstalledRuntime, containers_of
from trainwright.findings.locate import at, escape
from trainwright.handshake import Needs, Refusal
from trainwright.manifest.labels import namespace_of
from trainwright.manifest.provenance import Answer, Provenance, Traced, Tree, Why, split
from trainwright.manifest.template.pod import pod_template
from trainwright.operators.kubeflow_trainer.releases import PATCHES, POD_FIELDS, TRAINER, trainer_has
from trainwright.operators.kubeflow_trainer.runtime import NODE, POLICIES, pod_at
from trainwright.plan import Resolution

ANNOTATION = "trainwright.dev/runtime"
"""Of the pods: the runtime and its digest, so that another runtime under the same name is another run."""
OF_TRAINER = ("image", "command", "args", "env", "resources")
"""What ``spec.trainer`` says of the container that trains."""
_ASKED = "as asked"
"""The reason of what a run states itself."""
_BY_NAME = {"volumes": "name", "imagePullSecrets": "name", "env": "name", "volumeMounts": "mountPath"}
"""Lists that a patch joins, and by which key; another one is replaced (patchMergeKey in the Go types)."""


def refusal(needs: Needs, cluster: Cluster) -> Refusal | None:
    """Why a run cannot be on the runtime that it names; None where it can."""
    name, runtimes, trainer = needs.runtime, cluster.runtimes, cluster.operators.get(TRAINER.name)
    if name not in runtimes:
        known = f"use one of: {', '.join(runtimes)}" if runtimes else "remove runtime, and the run brings its own"
        return Refusal(f"the profile of cluster {cluster.cluster} has no runtime {name}", known)
    installed, policy = runtimes[name], POLICIES.get(needs.rendezvous)
    if trainer and not PATCHES.of(trainer.version):
        return Refusal(f"a TrainJob of Trainer {trainer.version} cannot say where its pods go", "upgrade Trainer to 2.1 or newer")
    if policy == "mpi":
        return Refusal(f"runtime {name} has Jobs of launcher and workers, and a run fills one Job {NODE}",
                       "remove runtime, and the run brings its own")  # fmt: skip
    if policy is None or policy not in installed.policies:
        told = f"its policy is {' and '.join(installed.policies) or 'none'}"
        return Refusal(f"runtime {name} does not make this rendezvous: {told}", "name another runtime, or remove runtime")
    jobs = [job["name"] for job in installed.jobs]
    if jobs != [NODE] or NODE not in [one.get("name") for one in containers_of(installed.jobs[0])]:
        others = ", ".join(jobs)
        return Refusal(f"runtime {name} has the Jobs {others}, and a run fills one Job {NODE} with a container {NODE}",
                       "name a runtime with that alone, or remove runtime")  # fmt: skip
    if needs.further:
        roles = tuple(one.name for one in needs.further)
        return Refusal(f"runtime {name} has no Job for it", "remove the role, or runtime", roles)
    return None


def installed_of(resolution: Resolution) -> tuple[str, InstalledRuntime]:
    name = resolution.binding.runtime
    assert name is not None  # noqa: S101 - asked where there is one
    return name, resolution.cluster.runtimes[name]


def stand_in(resolution: Resolution) -> Tree:
    """The runtime with the run's own parts in its pods, in the place of the one that a run brings. It is never written."""
    name, installed = installed_of(resolution)
    spec = _theirs(installed.spec, f"cluster:/runtimes/{escape(name)}/manifest/spec")
    job, ours = spec["template"]["spec"]["replicatedJobs"][0], _ours(resolution)
    theirs = job["template"]["spec"]["template"]
    job["template"]["spec"]["template"] = _merged(theirs, ours, stated_fields(resolution))
    head = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainingRuntime"}
    return {**head, "metadata": {"name": name, "namespace": namespace_of(resolution.plan)}, "spec": spec}


def runtime_ref(resolution: Resolution) -> Tree:
    name, installed = installed_of(resolution)
    as_asked = Why(name, "run:/runtime", "as asked: it is there, and belongs to the platform team")
    return {"apiGroup": "trainer.kubeflow.org", "kind": installed.kind, "name": as_asked}


def _ours(resolution: Resolution) -> Tree:
    """The pods as they would be on a runtime that the run brings."""
    _, installed = installed_of(resolution)
    template = pod_template(resolution, resolution.binding.ranks, {"restartPolicy": "Never"})
    said = Why(f"{installed.name}@{installed.digest}", "cluster:/runtimes", "the runtime, by its content")
    annotations = {**template["metadata"].get("annotations", {}), ANNOTATION: said}
    return {**template, "metadata": {**template["metadata"], "annotations": annotations}}


def stated_fields(resolution: Resolution) -> list[str]:
    """Fields of a pod's spec that a TrainJob of this release states, but for the containers."""
    fields = [field for field, feature in POD_FIELDS.items() if trainer_has(feature, resolution)]
    return [field.removeprefix("/spec/") for field in fields if field.startswith("/spec/") and "containers" not in field]


def _merged(theirs: Tree, ours: Tree, fields: Sequence[str]) -> Tree:
    """As the controller merges both (:mod:`trainwright.operators.kubeflow_trainer.pods`)."""
    metadata = {
        part: {**theirs.get("metadata", {}).get(part, {}), **ours["metadata"].get(part, {})} for part in ("labels", "annotations")
    }
    spec, own = dict(theirs["spec"]), ours["spec"]
    for field in fields:
        if field in own:
            spec[field] = _joined(field, spec.get(field), own[field])
    trains = next(one for one in spec["containers"] if split(one["name"])[0] == NODE)
    container = dict(trains) | {"name": own["containers"][0]["name"]}
    for field in (*OF_TRAINER, "volumeMounts"):
        if field in own["containers"][0]:
            container[field] = _joined(field, container.get(field), own["containers"][0][field])
    spec["containers"] = [container, *(one for one in spec["containers"] if one is not trains)]
    return {"metadata": metadata, "spec": spec}


def _joined(field: str, theirs: Any, ours: Any) -> Any:
    ours = _spread(ours)
    if field == "resources" and theirs:
        return {**theirs, **{part: {**_spread(theirs.get(part, {})), **_spread(amounts)} for part, amounts in ours.items()}}
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return {**theirs, **ours}
    if field in _BY_NAME and theirs:
        own, there = {_name(one, field): one for one in ours}, [_name(one, field) for one in theirs]
        return [*(own.get(_name(one, field), one) for one in theirs), *(one for one in ours if _name(one, field) not in there)]
    return ours


def _name(item: Any, field: str) -> Any:
    return split(item)[0].get(_BY_NAME[field])


def _spread(value: Any) -> Any:
    """A branch with one reason as its parts, each with that reason."""
    if not isinstance(value, Why) or not isinstance(value.value, dict | list | tuple):
        return value
    if isinstance(value.value, dict):
        return {key: part if isinstance(part, Why) else value._replace(value=part) for key, part in value.value.items()}
    return [part if isinstance(part, Why) else value._replace(value=part) for part in value.value]


def _theirs(node: Any, source: str) -> Any:
    if isinstance(node, dict) and node:
        return {key: _theirs(value, f"{source}/{escape(key)}") for key, value in node.items()}
    if isinstance(node, list) and node:
        return [_theirs(value, f"{source}/{number}") for number, value in enumerate(node)]
    return Why(node, source, "as the runtime of the platform team has it")


def without_theirs(runtime: Traced, name: str) -> Traced:
    """Of the pods of a stand-in what is not the runtime's: what the TrainJob has to say."""
    manifest, answers = runtime
    pod = _own(at(manifest, pod_at(0)), pod_at(0), answers, f"cluster:/runtimes/{escape(name)}/manifest")
    tree: Tree = {"spec": {"template": {"spec": {"replicatedJobs": [{"template": {"spec": {"template": pod or {}}}}]}}}}
    return split(tree)


def _own(node: Any, pointer: str, answers: Provenance, theirs: str) -> Any:
    """None where all of it is theirs."""
    answer = answers.get(pointer)
    if answer and answer.source.startswith(theirs):
        return None
    if isinstance(node, dict) and node:
        parts = {key: _own(value, f"{pointer}/{escape(key)}", answers, theirs) for key, value in node.items()}
        kept: Any = {key: part for key, part in parts.items() if part is not None}
    elif isinstance(node, list) and node:
        items = (_own(one, f"{pointer}/{number}", answers, theirs) for number, one in enumerate(node))
        kept = [part for part in items if part is not None]
    else:
        return Why(node, *answer) if answer else node
    return (Why(kept, *answer) if answer else kept) if kept else None


def dropped(resolution: Resolution) -> Iterator[tuple[str, Answer]]:
    """What the run states of its pods, and a TrainJob on a runtime may not: field and its answer; not where the runtime says the
    same.
    """
    _, installed = installed_of(resolution)
    fields = stated_fields(resolution)
    theirs = installed.jobs[0]["template"]["spec"]["template"]["spec"]
    container = next(one for one in theirs["containers"] if one.get("name") == NODE)
    ours, answers = split(_ours(resolution)["spec"])
    left = [(f"/{key}", key, theirs.get(key)) for key in ours if key not in (*fields, "containers", "volumes", "restartPolicy")]
    moved = (*OF_TRAINER, "volumeMounts", "name")
    left += [(f"/containers/0/{key}", key, container.get(key)) for key in ours["containers"][0] if key not in moved]
    left += [(f"/containers/{number}", "containers", None) for number in range(1, len(ours["containers"]))]
    for pointer, field, there in left:
        for place, answer in answers.items():
            if not (place == pointer or place.startswith(f"{pointer}/")):
                continue
            if field == "initContainers" and answer.source == "trainwright" and place.count("/") == 2:
                yield field, Answer("run:/prepare", answer.reason)  # what waits for the data
            if not answer.source.startswith("run:") or answer.reason != _ASKED:
                continue  # what only follows from the run's words, the platform team may have decided otherwise
            if at({"": there}, f"/{place.removeprefix(pointer)}") != at(ours, place):
                yield field, answer
