"""What the plan owns in a run's objects: an override of it is refused, and the run's own field is named instead."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from trainwright.findings.locate import at, escape
from trainwright.handshake import Rendezvous, Role
from trainwright.manifest import gang, kueue, supporting
from trainwright.manifest.kinds import GroupKind, Owned
from trainwright.manifest.template.awaiting import AWAIT_CONTAINER
from trainwright.manifest.template.bringing import BRING_CONTAINER, VOLUME
from trainwright.operators import TARGETS
from trainwright.plan import Resolution
from trainwright.plan.environment import is_stated
from trainwright.plan.packages import CONTAINER
from trainwright.program.told import MEETING
from trainwright.rendezvous.mpi import MPI
from trainwright.run import CommandWorkload
from trainwright_trainer.contract.layout import RANK_ENVIRONMENT

Manifest = dict[str, Any]

OBJECT = (
    Owned(r"/(apiVersion|kind)", "the kind of the object", "choose another target"),
    Owned(r"/metadata/(name|namespace)", "the name of the object", "change run or namespace"),
    Owned(
        r"/metadata/generateName",
        "the name of the object",
        "remove it: Argo CD cannot apply an object without a fixed name; raise attempt to run again",
    ),
    Owned(
        r"/metadata/(uid|resourceVersion|generation|creationTimestamp|deletion\w+|managedFields|ownerReferences|selfLink)|/status.*",
        "what the API server writes",
        "remove it",
    ),
    Owned(
        r"/metadata/labels/(app\.kubernetes\.io|trainwright\.dev)~1.*", "a label of the plan", "use labels, with keys of your own"
    ),
    Owned(
        r"/metadata/annotations/argocd\.argoproj\.io~1(hook.*|sync-wave|sync-options)",
        "how Argo CD treats the run",
        "remove it: a hook or a forced sync would run a finished run again, and a wave would hold the sync for the whole run",
    ),
)
"""Of every object."""

TEMPLATE = (
    Owned(
        r"/metadata/labels/((app\.kubernetes\.io|trainwright\.dev|batch\.kubernetes\.io|sidecar\.istio\.io)~1.*|job-name|controller-uid)",
        "a label of the plan",
        "use pod_labels, with keys of your own",
    ),
    Owned(
        r"/spec/(subdomain|hostname|setHostnameAsFQDN|nodeName)",
        "the address of the pod",
        "remove it: peers know the pod by its index",
    ),
    Owned(
        r"/spec/restartPolicy", "how pods come back", "change restarts: a failed pod is replaced, so that its exit code counts"
    ),
    Owned(
        r"/spec/(serviceAccount|serviceAccountName|automountServiceAccountToken)", "the service account", "change service_account"
    ),
    Owned(
        r"/spec/(shareProcessNamespace|hostPID)",
        "process 1 of the pod",
        "remove it: the supervisor must be process 1 to end the ranks",
    ),
    Owned(
        r"/metadata/labels/kueue\.x-k8s\.io~1.*",
        "the queue of the run",
        "use queue: Kueue admits the run as a whole, and would hold such pods back a second time",
    ),
    Owned(
        r"/spec/resourceClaims.*",
        "the devices of a pod",
        "use resource_claims of the run, or pods.resource_claims of the pool",
    ),
    Owned(r"/spec/(resources|overhead)(/.*)?", "the resources of a pod", "change resources"),
    Owned(r"/spec/schedulingGates.*", "when pods are placed", "use scheduling_gates, queue or gang"),
    Owned(r"/spec/ephemeralContainers.*", "nothing that a template can hold", "use initContainers with restartPolicy: Always"),
)


@lru_cache(maxsize=1)
def labels_of_schedulers() -> Mapping[str, str]:
    """Label that Kueue, a gang scheduler or an operator reads -> the field of a run that stands for it."""
    labels = {kueue.QUEUE_LABEL: "queue"}
    for read in (*(one.labels for one in gang.SCHEDULERS.values()), *(target.scheduling_labels for target in TARGETS.values())):
        labels |= read
    return labels


ANNOTATIONS_OF_SCHEDULERS = {key: field for one in gang.SCHEDULERS.values() for key, field in one.annotations.items()}
"""The same of annotations."""


@lru_cache(maxsize=1)
def scheduled() -> tuple[Owned, ...]:
    """What these read on an object, and at any depth of it on what is made of it: pods, and the Jobs of a JobSet, which a second
    queue would hold back a second time (kubernetes-sigs/kueue#2612).
    """
    parts = [
        Owned(rf"/metadata/(labels|annotations)/{re.escape(escape(key))}", f"the {field} of the run", f"use {field}")
        for key, field in {**labels_of_schedulers(), **ANNOTATIONS_OF_SCHEDULERS}.items()
    ]
    return tuple(Owned(f"(?:/.*)?{part.pattern}", part.what, part.fix) for part in (*parts, kueue.PLACE))


MAIN = (
    Owned(r"/ports.*", "a port of the plan", "remove it: the plan decides ports"),
    Owned(
        r"/(restartPolicy|restartPolicyRules)(/.*)?",
        "how pods come back",
        "remove it: a failed pod is replaced as a whole, so that its exit code counts",
    ),
)
SUPERVISED = Owned(
    r"/(lifecycle|(readiness|liveness|startup)Probe)(/.*)?|/terminationMessage(Path|Policy)",
    "the contract with the supervisor",
    "remove it: SIGTERM, probes and exit codes go through the supervisor",
)
"""A command has no supervisor, so its probes, hooks and last words are its own."""


def owned_parts(resolution: Resolution, manifest: Manifest) -> list[Owned]:
    """What the plan owns of one object as it was compiled, with the patterns made for this very run."""
    kind, target = GroupKind.of(manifest), TARGETS[resolution.plan.target]
    parts = [*OBJECT, *scheduled()]
    parts += [part for one in (*target.kinds, *supporting.KINDS) if one.key == kind for part in one.owned]
    for role, (template_kind, pointer) in target.templates_of(resolution.binding).items():
        parts += _of_template(resolution, manifest, role, pointer) if template_kind == kind else []
    for template_kind, pointer in target.templates.values():
        if template_kind == kind and at(manifest, pointer) is None:
            absent = re.escape(pointer.rpartition("/")[0])
            parts.append(Owned(f"{absent}(/.*)?", "the roles of the run", "change topology or roles"))
    return parts


def free_fields(resolution: Resolution, manifest: Manifest) -> tuple[str, ...] | None:
    """What an override may add to an object of an operator's kind, besides its pods and metadata; None for Kubernetes' own kinds,
    whose schemas say it.
    """
    from trainwright.validate.core import is_core  # few runs have overrides, and it takes its time to load

    kind = GroupKind.of(manifest)
    if is_core(str(manifest["apiVersion"])):
        return None
    kinds = [one for one in (*TARGETS[resolution.plan.target].kinds, *supporting.KINDS) if one.key == kind]
    return tuple(field for one in kinds for field in one.free)


def _of_template(resolution: Resolution, manifest: Manifest, role: str, pointer: str) -> list[Owned]:
    pod = at(manifest, f"{pointer}/spec")
    main = f"{pointer}/spec/containers/0"
    parts = [Owned(f"{re.escape(pointer)}(?:{part.pattern})", part.what, part.fix) for part in TEMPLATE]
    of_main = (*_main(resolution, role), *_of_role(resolution, role))
    parts += [Owned(f"{main}(?:{part.pattern})", part.what, part.fix) for part in of_main]
    parts.append(_grace(resolution, f"{pointer}/spec"))
    parts += _scheduling(resolution, f"{pointer}/spec")
    if resolution.needs.part(MPI):
        parts.append(Owned(f"({pointer}/spec|{main})/securityContext/runAsUser", "the user of sshd", "change security.user"))
    return parts + _placement(pod, f"{pointer}/spec") + _devices(resolution, role, main) + _volumes(pod, pointer, main)


def _of_role(resolution: Resolution, name: str) -> Iterator[Owned]:
    """What is the plan's in the main container of some roles only. The share of a pod without ranks has no field in a run, so an
    override may change it.
    """
    role, process = next(role for role in resolution.binding.roles if role.name == name), resolution.processes[name]
    if role.holds_ranks:
        yield Owned(r"/resources/(limits|requests)/(cpu|memory)", "the resources of a pod", "change resources")
    if process.supervised:
        yield SUPERVISED
    elif process.ready_port:
        fix = f"remove it: peers can use the pod once something listens on {process.ready_port}"
        yield Owned(r"/readinessProbe(/.*)?", "how peers know that the pod is there", fix)


def _grace(resolution: Resolution, pointer: str) -> Owned:
    ours = resolution.plan.saved_by == "trainer"
    fix = "change checkpoints, or the claim's write_mebibytes_per_second" if ours else "change grace"
    return Owned(f"{pointer}/terminationGracePeriodSeconds", "the grace period", fix)


def _scheduling(resolution: Resolution, pointer: str) -> list[Owned]:
    """Fields of a pod that go with its group: where neither is planned they are free."""
    parts = []
    if resolution.plan.gang:
        fix = "change gang, or scheduling in the cluster profile: no other scheduler reads the group"
        parts.append(Owned(f"{pointer}/schedulerName", "the gang scheduler of the pods", fix))
    if resolution.run.priority:
        parts.append(Owned(f"{pointer}/priorityClassName", "the priority of the pods", "change priority"))
    return parts


def _placement(pod: Manifest, pointer: str) -> list[Owned]:
    parts = [
        Owned(f"{pointer}/nodeSelector/{re.escape(escape(key))}", "a label of the node pool", "change node_pool")
        for key in pod.get("nodeSelector", {})
    ]
    if pod.get("tolerations"):
        fix = "list what is to be added; the pool's own tolerations stay, and node_lost says how long a lost node is waited for"
        parts.append(Owned(f"{pointer}/tolerations/{_indexes(pod['tolerations'])}(/.*)?", "a toleration of the plan", fix))
    return parts


def _main(resolution: Resolution, name: str) -> tuple[Owned, ...]:
    """Of the main container of a role."""
    role = _role(resolution, name)
    fix = f"change roles.{name}" if role and role.further else "change image or workload"
    return (Owned(r"/(name|image|command|args)(/.*)?", "the work of the container", fix), *MAIN)


def _role(resolution: Resolution, name: str) -> Role | None:
    return next((role for role in resolution.binding.roles if role.name == name), None)


def _devices(resolution: Resolution, name: str, main: str) -> list[Owned]:
    amounts, role = f"{main}/resources/(limits|requests)", _role(resolution, name)
    pool, parts = resolution.pool_of(role)[1] if role else resolution.pool, []
    if pool.gpu:
        fix = role.gpus_fix if role else "change topology.gpus_per_node"
        parts.append(Owned(f"{amounts}/{re.escape(escape(pool.gpu.resource))}", "the number of GPUs", fix))
    if pool.fabric.resource:
        fix = "change the fabric in the cluster profile"
        parts.append(Owned(f"{amounts}/{re.escape(escape(pool.fabric.resource))}", "the pod's RDMA devices", fix))
    return parts


def _volumes(pod: Manifest, pointer: str, main: str) -> list[Owned]:
    """Volumes and mounts of the plan, those of the run's own mounts first; the sizes of scratch and shared memory are free."""
    parts: list[Owned] = []
    for listed, there, what in (
        (pod.get("volumes", []), f"{pointer}/spec/volumes", "a volume of the plan"),
        (pod["containers"][0].get("volumeMounts", []), f"{main}/volumeMounts", "a mount of the plan"),
    ):
        numbers: dict[str, list[int]] = {}
        for number, item in enumerate(listed):
            numbers.setdefault(_FIELDS.get(item["name"], "change mounts"), []).append(number)
        for fix in sorted(numbers, key=lambda fix: fix != "change mounts"):
            indexes = "|".join(map(str, numbers[fix]))
            parts.append(Owned(f"{there}/({indexes})(?!/emptyDir/sizeLimit$)(/.*)?", what, fix))
    return [*parts, *_containers(pod, f"{pointer}/spec/initContainers", f"{pointer}/spec/containers")]


_BROUGHT = "write supervisor: image where the image has one, or change supervisor of the profile"
_FIELDS = {
    "shm": "remove it: the size of shared memory is resources.shared_memory",
    "tmp": "remove it: the root file system is read-only, and programs need /tmp; write `/tmp: {scratch: 20Gi}` under mounts",
    "spec": "change files, or the run's own fields",
    VOLUME: _BROUGHT,
}
"""Volumes that no entry of ``mounts`` stands for -> what to write instead."""


def _containers(pod: Manifest, pointer: str, beside: str) -> list[Owned]:
    planned = pod.get("initContainers") or []
    return [
        *(Owned(f"{pointer}/{number}(/.*)?", *_PLANNED.get(one["name"], (_STATED, _WHERE)))
          for number, one in enumerate(planned)),
        *(Owned(f"{beside}/{number}(/.*)?", _STATED, _WHERE) for number in range(1, len(pod["containers"]))),
    ]


_PLANNED = {
    AWAIT_CONTAINER: ("how pods wait for their data", "change prepare"),
    BRING_CONTAINER: ("what brings the supervisor", _BROUGHT),
    CONTAINER: ("how packages are installed", "change workload.packages"),
}
_STATED, _WHERE = "a container that the run or its pool states", "change containers, or pods.containers of the pool"


def _indexes(items: Sequence[Any]) -> str:
    return f"({'|'.join(map(str, range(len(items))))})"


_OF_RANKS = {Rendezvous.STATIC: "torchrun", Rendezvous.C10D: "torchrun", Rendezvous.RAY_HEAD: "Ray Train"}
"""Who tells the ranks of a command which they are."""


def owners_of(names: Iterable[str], resolution: Resolution, role: Role | None = None) -> dict[str, str]:
    """Environment variables of the main container that are not the run's to set -> a sentence that says who sets each.

    Args:
        role: whose pods the names are for, where they are stated for one; defaults of the plan are then its own to state.
    """
    environment = resolution.without_own(role) if role else resolution.plan.environment
    planned = {variable.name for variable in environment if not is_stated(variable) and not (role and variable.default)}
    injects, further = resolution.binding.injects, role is not None and role.further is not None
    opaque = isinstance(resolution.run.workload, CommandWorkload)
    by_mpirun = opaque and resolution.needs.rendezvous is Rendezvous.MPI_HOSTFILE  # which tells ranks not where they meet

    def owner(name: str) -> str | None:
        if name in injects:
            return f"{name} is set by the controller: {injects[name]}"
        if name in planned or name.startswith("TRAINWRIGHT_"):
            return f"{name} is set by the plan"
        if by_mpirun and name in MEETING:
            return None
        if not further and (name in RANK_ENVIRONMENT or name.startswith(("PET_", "TORCHELASTIC_"))):
            who = _OF_RANKS.get(resolution.needs.rendezvous, "the framework") if opaque else "the supervisor"
            return f"{name} is set by {who} for each rank"
        return None

    found = ((name, owner(name)) for name in names)
    return {name: who for name, who in found if who}


def subtree(node: Any, pointer: str) -> Iterator[str]:
    """The pointer and every pointer below it."""
    yield pointer
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in children:
        yield from subtree(value, f"{pointer}/{escape(str(key))}")
