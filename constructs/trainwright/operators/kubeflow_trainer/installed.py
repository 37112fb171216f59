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
from trainwright.handshake import Needs, Refusal, Role
from trainwright.manifest.labels import namespace_of
from trainwright.manifest.provenance import Answer, Provenance, Traced, Tree, Why, split
from trainwright.manifest.template.pod import pod_template
from trainwright.operators.kubeflow_trainer.pods import ANCESTOR
from trainwright.operators.kubeflow_trainer.releases import PATCHES, POD_FIELDS, TRAINER, trainer_has
from trainwright.operators.kubeflow_trainer.runtime import LAUNCHER, NODE, POLICIES, jobs_of, pod_at
from trainwright.plan import Resolution
from trainwright.plan.environment import stated_variables
from trainwright.rendezvous.mpi import MPI
from trainwright.run import Initializer
from trainwright_trainer.contract.layout import ROLE_ENV

ANNOTATION = "trainwright.dev/runtime"
"""Of the pods: the runtime and its digest, so that another runtime under the same name is another run."""
OF_TRAINER = ("image", "command", "args", "env", "resources")
"""What ``spec.trainer`` says of the container that trains."""
INITIALIZER = "-initializer"
"""Of the names of the Jobs that fetch, after ``dataset`` and ``model``."""
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
    if policy is None or policy not in installed.policies:
        told = f"its policy is {' and '.join(installed.policies) or 'none'}"
        return Refusal(f"runtime {name} does not make this rendezvous: {told}", "name another runtime, or remove runtime")
    if needs.further:
        roles = tuple(one.name for one in needs.further)
        return Refusal(f"runtime {name} has no Job for it", "remove the role, or runtime", roles)
    mpi, filled = needs.part(MPI), [job["name"] for job in installed.jobs if NODE in names_of(containers_of(job))]
    if mpi and (refused := _refused_under_mpi(name, installed, mpi, needs.nodes)):
        return refused
    wanted = [NODE] if mpi is None else [LAUNCHER] if mpi.launcher_holds_ranks and needs.nodes == 1 else [NODE, LAUNCHER]
    if lacking := [job for job in wanted if filled.count(job) != 1]:
        others = ", ".join(job["name"] for job in installed.jobs)
        return Refusal(f"runtime {name} has the Jobs {others}, and a run fills a Job {lacking[0]} with a container {NODE}",
                       "name a runtime with one, or remove runtime")  # fmt: skip
    return None


def _refused_under_mpi(name: str, installed: InstalledRuntime, mpi: MPI, nodes: int) -> Refusal | None:
    """Why a launcher and its workers cannot be those of a runtime (pkg/runtime/framework/plugins/mpi)."""
    as_node = bool(at(installed.spec, "/mlPolicy/mpi/runLauncherAsNode"))
    if as_node is not mpi.launcher_holds_ranks:
        said = "is a node, with ranks of its own" if as_node else "is no node"
        return Refusal(f"the launcher of runtime {name} {said}", f"write topology.launcher_is_node: {str(as_node).lower()}")
    if as_node and nodes == 1 and NODE in [job["name"] for job in installed.jobs]:
        return Refusal(f"runtime {name} has one worker at least beside its launcher, which is a node", "write topology.nodes: 2")
    return None


def names_of(containers: Sequence[Any]) -> list[Any]:
    return [one.get("name") for one in containers]


def installed_of(resolution: Resolution) -> tuple[str, InstalledRuntime]:
    name = resolution.binding.runtime
    assert name is not None  # noqa: S101 - asked where there is one
    return name, resolution.cluster.runtimes[name]


def stand_in(resolution: Resolution) -> Tree:
    """The runtime with the run's own parts in its pods, in the place of the one that a run brings. It is never written."""
    name, installed = installed_of(resolution)
    spec = _theirs(installed.spec, f"cluster:/runtimes/{escape(name)}/manifest/spec")
    jobs = {split(one["name"])[0]: one for one in spec["template"]["spec"]["replicatedJobs"]}
    own = dict(jobs_of(resolution))
    for job, role in own.items():
        of_job, fields = jobs[job]["template"]["spec"], stated_fields(resolution)
        of_job["template"] = _merged(of_job["template"], _ours(resolution, role), fields, _of_container(resolution, role))
    others = [_beside(resolution, one) for job, one in jobs.items() if job not in own]
    # those of the run where the target's templates are
    spec["template"]["spec"]["replicatedJobs"] = [*(jobs[job] for job in own), *others]
    head = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainingRuntime"}
    return {**head, "metadata": {"name": name, "namespace": namespace_of(resolution.plan)}, "spec": spec}


def _beside(resolution: Resolution, job: Tree) -> Tree:
    """A Job that is the runtime's own; an initializer with what the run tells it."""
    name, (runtime, _) = split(job["name"])[0], installed_of(resolution)
    pod = job["template"]["spec"]["template"]
    told = resolution.run.initializer.stated.get(name.removesuffix(INITIALIZER)) if resolution.run.initializer else None
    for container in pod["spec"]["containers"] if told else ():
        if told and split(container["name"])[0] == name:
            source = f"run:/initializer/{name.removesuffix(INITIALIZER)}"
            container["env"] = _joined("env", container.get("env", []), [Why(one, source, _ASKED) for one in _variables(told)])
            container["envFrom"] = [*_spread(container.get("envFrom", [])), *(Why(one, source, _ASKED) for one in _whole(told))]
    pod["spec"] = Why(pod["spec"], f"cluster:/runtimes/{escape(runtime)}", f"Job {name} of the runtime, beside the run's pods")
    return job


def _variables(told: Initializer) -> list[Tree]:
    where = [{"name": "STORAGE_URI", "value": told.storage_uri}] if told.storage_uri else []
    return [*where, *stated_variables(told.env)]


def _whole(told: Initializer) -> list[Tree]:
    return [{"secretRef": {"name": told.secret}}] if told.secret else []


def initializer(resolution: Resolution) -> Tree:
    """The field of a TrainJob by which the initializers of its runtime are told what to fetch."""
    stated = resolution.run.initializer.stated if resolution.run.initializer else {}
    if not stated:
        return {}
    fields = {}
    for part, told in stated.items():
        field: Tree = {"storageUri": told.storage_uri} if told.storage_uri else {}
        field |= {"secretRef": {"name": told.secret}} if told.secret else {}
        field |= {"env": stated_variables(told.env)} if told.env else {}
        fields[part] = Why(field, f"run:/initializer/{part}", _ASKED)
    return {"initializer": fields}


def lacks(resolution: Resolution) -> Iterator[tuple[str, str]]:
    """What the run tells an initializer that the runtime has not, and what it lacks (plugins/jobset, Validate)."""
    name, installed = installed_of(resolution)
    for part in resolution.run.initializer.stated if resolution.run.initializer else ():
        step = f"{part}{INITIALIZER}"
        job = next((one for one in installed.jobs if one["name"] == step), None)
        container = next((one for one in containers_of(job or {}) if one.get("name") == step), None)
        if job is None:
            yield part, f"runtime {name} has no Job {step}"
        elif container is None:
            yield part, f"Job {step} of runtime {name} has no container {step}"
        elif at(job or {}, f"/template/metadata/labels/{escape(ANCESTOR)}") != step:
            yield part, f"Job {step} of runtime {name} has no label {ANCESTOR}: {step}, by which the operator knows it"
        elif "initializer" not in names_of(container.get("volumeMounts") or []):
            yield part, f"container {step} of runtime {name} mounts no volume called initializer"


def workers_image(resolution: Resolution) -> str | None:
    """Under mpirun: the image of the workers, which a TrainJob cannot state; None where there are none."""
    if resolution.needs.part(MPI) is None:
        return None
    workers = next((one for one in installed_of(resolution)[1].jobs if one["name"] == NODE), None)
    return next((str(one.get("image")) for one in containers_of(workers or {}) if one.get("name") == NODE), None)


def runtime_ref(resolution: Resolution) -> Tree:
    name, installed = installed_of(resolution)
    as_asked = Why(name, "run:/runtime", "as asked: it is there, and belongs to the platform team")
    return {"apiGroup": "trainer.kubeflow.org", "kind": installed.kind, "name": as_asked}


def _of_container(resolution: Resolution, role: Role) -> tuple[str, ...]:
    """What a TrainJob says of the container that trains. Workers under mpirun have only mounts of it, and where their launcher
    is a node too its variables and resources (trainer #4030, #2650).
    """
    if role is resolution.binding.roles[0]:
        return (*OF_TRAINER, "volumeMounts")
    return ("env", "resources", "volumeMounts") if _is_node(resolution) else ("volumeMounts",)


def _is_node(resolution: Resolution) -> bool:
    """Whether the launcher under mpirun is, so that its variables are those of the workers."""
    mpi = resolution.needs.part(MPI)
    return mpi is not None and mpi.launcher_holds_ranks


def _ours(resolution: Resolution, role: Role) -> Tree:
    """The pods as they would be on a runtime that the run brings."""
    _, installed = installed_of(resolution)
    template = pod_template(resolution, role, {"restartPolicy": "Never"})
    if _is_node(resolution):
        lead = pod_template(resolution, resolution.binding.roles[0], {})["spec"]["containers"][0]
        of_both = [one for one in _spread(lead["env"]) if split(one)[0]["name"] != ROLE_ENV]
        containers = [{**template["spec"]["containers"][0], "env": of_both}, *template["spec"]["containers"][1:]]
        template = {**template, "spec": {**template["spec"], "containers": containers}}
    said = Why(f"{installed.name}@{installed.digest}", "cluster:/runtimes", "the runtime, by its content")
    annotations = {**template["metadata"].get("annotations", {}), ANNOTATION: said}
    return {**template, "metadata": {**template["metadata"], "annotations": annotations}}


def stated_fields(resolution: Resolution) -> list[str]:
    """Fields of a pod's spec that a TrainJob of this release states, but for the containers."""
    fields = [field for field, feature in POD_FIELDS.items() if trainer_has(feature, resolution)]
    return [field.removeprefix("/spec/") for field in fields if field.startswith("/spec/") and "containers" not in field]


def _merged(theirs: Tree, ours: Tree, fields: Sequence[str], of_container: Sequence[str]) -> Tree:
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
    for field in of_container:
        if field in own["containers"][0]:
            container[field] = _joined(field, container.get(field), own["containers"][0][field])
    if "resources" not in of_container:
        container |= _counted(container, own["containers"][0])
    spec["containers"] = [container, *(one for one in spec["containers"] if one is not trains)]
    return {"metadata": metadata, "spec": spec}


def _counted(theirs: Tree, ours: Tree) -> Tree:
    """Resources of a container that only its runtime states, where they are what the plan counts."""
    planned = {name: one for part in _spread(ours["resources"]).values() for name, one in _spread(part).items()}
    stated = _spread(theirs.get("resources", {}))

    def counted(name: str, amount: Any) -> Any:
        same = str(split(planned.get(name))[0]) == str(split(amount)[0])
        return planned[name]._replace(value=split(amount)[0]) if same and isinstance(planned[name], Why) else amount

    return {"resources": {
        part: {name: counted(name, amount) for name, amount in _spread(amounts).items()} for part, amounts in stated.items()
    }} if stated else {}  # fmt: skip


def _joined(field: str, theirs: Any, ours: Any) -> Any:
    ours, theirs = _spread(ours), _spread(theirs)  # an empty list of theirs is one value
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


def without_theirs(runtime: Traced, name: str, own: int) -> Traced:
    """Of the pods of a stand-in what is not the runtime's: what the TrainJob says. ``own`` is the number of the run's Jobs."""
    (manifest, answers), theirs = runtime, f"cluster:/runtimes/{escape(name)}/manifest"
    pods = [_own(at(manifest, pod_at(place)), pod_at(place), answers, theirs) for place in range(own)]
    jobs = [{"template": {"spec": {"template": pod or {}}}} for pod in pods]
    tree: Tree = {"spec": {"template": {"spec": {"replicatedJobs": jobs}}}}
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
    for job, role in jobs_of(resolution):
        yield from _dropped(resolution, job, role)


def _dropped(resolution: Resolution, job: str, role: Role) -> Iterator[tuple[str, Answer]]:
    _, installed = installed_of(resolution)
    fields = stated_fields(resolution)
    theirs = next(one for one in installed.jobs if one["name"] == job)["template"]["spec"]["template"]["spec"]
    container = next(one for one in theirs["containers"] if one.get("name") == NODE)
    ours, answers = split(_ours(resolution, role)["spec"])
    left = [(f"/{key}", key, theirs.get(key)) for key in ours if key not in (*fields, "containers", "volumes", "restartPolicy")]
    # under mpirun variables reach the ranks by the launcher; of the workers' image there is a rule
    moved = (*_of_container(resolution, role), "env", "image", "name")
    left += [(f"/containers/0/{key}", key, container.get(key)) for key in ours["containers"][0] if key not in moved]
    left += [(f"/containers/{number}", "containers", None) for number in range(1, len(ours["containers"]))]
    for pointer, field, there in left:
        for place, answer in answers.items():
            if not (place == pointer or place.startswith(f"{pointer}/")):
                continue
            if field == "initContainers" and answer.source == "trainwright" and place.count("/") == 2:
                yield field, Answer("run:/prepare", answer.reason)  # what waits for the data
            asked = answer.reason == _ASKED or answer.source == "run:/topology/gpus_per_node"
            if not answer.source.startswith("run:") or not asked or "/resources/requests/" in place:
                continue  # what only follows from the run's words, the platform team may have decided otherwise
            if str(at({"": there}, f"/{place.removeprefix(pointer)}")) != str(at(ours, place)):
                yield field, answer
