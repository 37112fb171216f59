"""What every target offers."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from trainwright.cluster.addons import Releases, Version, release
from trainwright.handshake import Binding, Needs, OperatorName, Refusal, Role
from trainwright.manifest.kinds import GroupKind, ObjectKind, Owned, Reasons
from trainwright.manifest.labels import in_foundation
from trainwright.manifest.pods import FoundPod, pods_in
from trainwright.manifest.provenance import Provenance, Traced, Tree, origin
from trainwright.plan import Resolution

if TYPE_CHECKING:
    from trainwright.cluster import Cluster
    from trainwright.findings import Finding, Where
    from trainwright.findings.context import Context
    from trainwright.findings.locate import Locator

BROUGHT_BACK_ALONE = "choose a target that brings back one pod without the others"
"""What to do where a target refuses pods that do not communicate."""

Rule = Callable[["Context", Resolution], Iterator["Finding"]]
"""A rule on the plan of a run, about one operator alone."""


def owned_manager(spec: str) -> Owned:
    """Which controller acts on an object; ``spec`` is a pattern of the pointer of its spec. Kueue states itself there, where a
    queue sends its runs to other clusters (MultiKueue)."""
    fix = "remove it: every other controller would leave the object alone; for runs in other clusters use a queue with multikueue"
    return Owned(f"{spec}/managedBy", "which controller acts on the run", fix)


class GangFlag(NamedTuple):
    """The flag by which an operator makes a PodGroup for each of its jobs, and which a manifest cannot set.

    Every operator knows the value ``volcano``.
    """

    schedulers: Mapping[str, str] | None = None
    """Values of the flag -> the scheduler that pods then go to. None where any other value than ``volcano`` is the name of a
    scheduler with the coscheduling plugin."""
    keeps_scheduler: bool = False
    """Whether pods that name a scheduler keep it; otherwise the flag decides."""

    def groups_for(self, value: str | None) -> str | None:
        """The gang scheduler that the operator makes groups for, as a profile calls it."""
        if value is None or value == "volcano":
            return value
        return "coscheduling" if self.schedulers is None or value == "scheduler-plugins" else None

    def scheduler(self, value: str, named: str | None) -> str:
        """Where pods go that name this scheduler, or none."""
        if self.schedulers is not None:
            return self.schedulers.get(value, value)
        return named or value if self.keeps_scheduler else value

    def value_for(self, gang: str, scheduler: str) -> str:
        """What suits a gang scheduler and the name by which pods know it."""
        if gang == "volcano":
            return "volcano"
        return "scheduler-plugins" if self.schedulers is not None else scheduler

    def fixes_name(self, gang: str) -> bool:
        """Whether no value leads to a scheduler of another name."""
        return self.schedulers is not None or gang == "volcano"


class Crd(NamedTuple):
    """A CustomResourceDefinition that an operator brings, and the version of it that it must serve."""

    name: str
    version: str


class Feature(NamedTuple):
    """What not every known release of an operator can do."""

    since: tuple[int, int]
    what: str
    """As the table of releases in the docs has it."""
    source: str
    """The upstream file, pull request or issue that says so."""

    def of(self, version: Version) -> bool:
        """Whether a release of the operator has it."""
        return release(version) >= self.since


class KnownOperator(NamedTuple):
    """An operator, as this compiler knows it."""

    name: OperatorName
    releases: Releases
    crd: Crd
    """By which a cluster shows that it is installed."""
    gang_flag: GangFlag | None = None
    """None where it makes no groups by a flag of its own."""
    managed_by: Feature | None = None
    """By which its jobs can name another controller; None where every known release has the field."""
    features: tuple[Feature, ...] = ()
    """The others."""


class AddedContainer(NamedTuple):
    """An init container that an operator puts into pods of its own accord; no object names it."""

    name: str
    image: str
    """Unless the operator is told another one (``init_image`` of the profile)."""
    template: str
    """Pointer of the pod template that gets it."""
    beside: str
    """Pointer of what the object must have besides, or no pod gets it."""


def admitted(*templates: str) -> tuple[str, ...]:
    """What Kueue writes into pod templates of an admitted run, as paths of jq: node labels and tolerations of the flavor, and the
    gate of topology-aware scheduling (pkg/podset/podset.go, Merge).
    """
    return tuple(f"{one}.spec.{field}" for one in templates for field in ("nodeSelector", "tolerations", "schedulingGates"))


Template = tuple[GroupKind, str]
"""Kind of an object, and the pointer of a pod template in it."""


class Target(ABC):
    """A kind of Kubernetes object that can carry a run.

    In most, no object is shared, no operator depends on another, and each role has a place of its own. Beside the module is a
    file of the target's name that ends with ``.md``: its section of docs/targets.md. One that ends with ``.lua`` says what the
    status of the object that carries the run means to Argo CD, where ``conditions.lua`` does not.
    """

    name: str
    title: str
    kind: GroupKind
    """Of the object that carries the run."""
    operator: KnownOperator | None
    """What must be installed; None for kinds that come with Kubernetes, or with the gang scheduler."""
    depends_on: tuple[KnownOperator, ...] = ()
    """Further operators that must be installed, because that one leaves the pods to them."""
    kueue: str | None
    """What Kueue's configuration calls this kind (``integrations.frameworks``); None where Kueue has no integration for it."""
    queue_writes: tuple[str, ...] = ()
    """Where Kueue writes into an admitted object, as paths of jq: :func:`admitted` has those of pod templates."""
    queue_adds_by_key: bool = False
    """Whether that is an item of a list that only the API server knows by its key: a client would write the list without it."""
    minimum_kubernetes: tuple[int, int]
    templates: Mapping[str, Template]
    """Role that the target itself has -> where its pod template is, or may be: :meth:`templates_of` says it of one run."""
    helpers: tuple[Template, ...] = ()
    """Pod templates besides those of the roles: pods that hold no ranks, and that no override may touch."""
    adds: tuple[AddedContainer, ...] = ()
    images: tuple[str, ...] = ()
    """Pointers of images that the object which carries the run may name outside of its pod templates."""
    kinds: tuple[ObjectKind, ...]
    """Of all objects that the target makes."""
    shared: GroupKind | None = None
    """Kind of the object that runs of one shape share: it lives in the foundation, and is called after its content."""
    reserved_labels: tuple[str, ...] = ()
    """Keys that the controller sets on objects or pods; one that ends with ``/`` stands for all keys with that prefix."""
    scheduling_labels: Mapping[str, str] = MappingProxyType({})
    """Labels by which a run tells this operator how to schedule it -> field of the run that stands for each."""
    cannot_carry: Mapping[str, str] = MappingProxyType({})
    """Field of a script's or command's life -> why this kind cannot carry it."""
    renews_deadline: bool = False
    """Whether `deadline` counts anew with each attempt, so that all attempts together may take longer."""
    longest_name: int = 63
    """Characters that the operator allows in the name of the object that carries the run."""
    hides_unready: bool = False
    """Whether its Services have no address for a pod that is not ready, so that peers cannot find it."""
    rules: tuple[Rule, ...] = ()
    """About this target alone."""

    @property
    def operators(self) -> tuple[str, ...]:
        """Names of all that must be installed."""
        return tuple(one.name for one in (self.operator, *self.depends_on) if one)

    @property
    def health(self) -> str:
        """What the status of the object that carries the run means to Argo CD, in Lua."""
        here = Path(inspect.getfile(type(self)))
        own = here.with_name(f"{self.name}.lua")
        return (own if own.exists() else here.parents[1] / "conditions.lua").read_text(encoding="utf-8")

    @abstractmethod
    def bind(self, needs: Needs, cluster: Cluster) -> Binding | Refusal:
        """Where the ranks would live, or why they cannot."""

    @staticmethod
    def lacks(made: str, needs: Needs, instead: str = "choose a target whose operator makes it") -> Refusal:
        """Of a kind that does not make what a rendezvous needs."""
        return Refusal(f"{made}, which is not enough for the rendezvous {needs.rendezvous.value}", instead)

    def templates_of(self, binding: Binding) -> Mapping[str, Template]:
        """Role of a run -> where its pod template is."""
        return {role.name: self.templates[role.name] for role in binding.roles}

    @abstractmethod
    def lower(self, resolution: Resolution) -> list[Tree]:
        """The run's objects, in the order a reviewer reads them."""

    def finish(self, resolution: Resolution, objects: list[Traced]) -> list[Traced]:
        """The objects as they are written, from those with all overrides in them.

        What is the run's own leaves a shared object here, which is called after its content. Overrides and rules see whole pods
        in ``templates``, wherever their parts end up.
        """
        return objects


def further_roles(needs: Needs, host: str, index_field: str | None = None) -> tuple[Role, ...]:
    """The roles that a run brings, for a target that makes their pods.

    Args:
        host: of a pod, with ``{role}`` besides what a role's host has.
        index_field: of a pod, that holds its number among those of its role.
    """
    return tuple(
        Role(
            one.name,
            one.pods,
            host.replace("{role}", one.name),
            container=one.name,
            share=one.share,
            counted_in=f"run:/roles/{one.name}/pods",
            further=one,
            index_field=index_field,
        )
        for one in needs.further
    )


class RunPod(NamedTuple):
    """A pod template in a run's own objects."""

    role: str | None
    """None for a pod that has none: a helper of the target, or one that the plan does not know."""
    kind: GroupKind
    """Of the object that it is in."""
    found: FoundPod
    answers: Provenance
    """Where the values of that object come from."""

    @property
    def is_the_runtimes(self) -> bool:
        """Whether it is of a Job that an installed runtime has beside the run's own: its platform team answers for it."""
        return self.role is None and self.source("").startswith("cluster:/runtimes/")

    def source(self, below: str) -> str:
        """What states the value at a pointer into the pod's spec."""
        return origin(self.answers, self.found.pointer + below)[0]

    def stated(self, locate: Locator, below: str) -> Where | None:
        """Where a file states what a pointer into the pod's spec leads to, or what is nearest above it; None where none does."""
        source, rest = origin(self.answers, self.found.pointer + below)
        return locate.at(source + rest) if source.startswith(("run:", "cluster:")) else None

    def where(self, locate: Locator, below: str, otherwise: str = "/overrides") -> Where:
        """The same; ``otherwise`` is the field of the run that decides what no file states."""
        return self.stated(locate, below) or locate.run(otherwise)


def run_pods(
    target: Target, resolution: Resolution, manifests: Iterable[Mapping[str, Any]], provenance: Sequence[Provenance] = ()
) -> list[RunPod]:
    """Every pod in a run's own objects, wherever it is; those of the roles come first, in the order of the binding.

    ``provenance`` is that of the objects, where somebody asks for places.
    """
    places = target.templates_of(resolution.binding)
    roles = {place: role for role, place in places.items()}
    pods = [
        RunPod(role, kind, found, answers)
        for manifest, answers in zip(manifests, provenance or repeat({}), strict=False)
        if not in_foundation(manifest)
        for kind in [GroupKind.of(manifest)]
        for found in pods_in(manifest)
        for role in [roles.get((kind, found.pointer.removesuffix("/spec")))]
    ]
    order = {role: number for number, role in enumerate(places)}
    return sorted(pods, key=lambda pod: order.get(pod.role or "", len(order)))


def run_kind(
    key: GroupKind,
    reasons: Reasons,
    owned: tuple[Owned, ...] = (),
    free: tuple[str, ...] = (),
    mutable: tuple[str, ...] = (),
) -> ObjectKind:
    """The kind of the object that carries a run, with the reasons for what every such object begins with."""
    begins = {
        "": "the run itself",
        "/metadata": "run name and identity hash: an edit that would change a pod is a new object",
        "/metadata/labels": "labels of the run's objects; free to change",
        "/metadata/annotations": "annotations of this object; free to change",
    }
    return ObjectKind(key, {**begins, **reasons}, owned, free, mutable)
