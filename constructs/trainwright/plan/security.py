"""Who the processes of a run's pods are: what the run states, then the profile, and then what the namespace demands.

Our trainer's images are ours, so its pods are as strict as `restricted` in every namespace. Of a script's or a command's image
nothing is known: it keeps its own user, home and capabilities as far as the namespace allows that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from trainwright.cluster import Cluster
from trainwright.findings.locate import escape
from trainwright.handshake import Role
from trainwright.plan.model import SecurityPlan
from trainwright.plan.stated import words_of
from trainwright.run import CommandWorkload, Run, ScriptWorkload
from trainwright.run.roles import ALL
from trainwright.security import Security

USER_ID = 1000
"""User, group and file system group of our trainer's pods; its images use the same."""

RESTRICTED = "restricted"

OWN = SecurityPlan(
    level=RESTRICTED, user=USER_ID, group=USER_ID, fs_group=USER_ID, non_root=True, hardened=True, read_only_root=True,
    capabilities=(), privileged=False, sources={},
)
"""Of pods that run nothing but our own programs."""


def plan_security(run: Run, cluster: Cluster) -> SecurityPlan:
    """Whose the processes of the pods with ranks are. What asks for more than the namespace allows stays in it, for the rules to
    find.
    """
    of_all = [("run:/roles/all/security", run.roles[ALL].security)] if ALL in run.roles else []
    return _planned(run, cluster, [*of_all, ("run:/security", run.security)], own_image=False)


def role_security(run: Run, cluster: Cluster, role: Role | None) -> SecurityPlan:
    """The same of the pods of one role; None for a pod that has none. Who the processes are belongs to the image and, under
    mpirun, to ssh at both ends, so every pod has that of the run; what they may do beyond it is said of the ranks alone. A
    further role has an image that nobody here knows, whatever the run's is.
    """
    own_image, holds_ranks = role is not None and role.further is not None, role is not None and role.holds_ranks
    layers = [(f"{source}/security", words.security) for words, source in words_of(run, role)]
    if not holds_ranks and (_is_opaque(run) or not own_image):
        who = run.security.model_copy(update={"capabilities": None, "privileged": None})
        layers = [("run:/security", who), *layers]
    return _planned(run, cluster, layers, own_image)


def _is_opaque(run: Run) -> bool:
    return isinstance(run.workload, CommandWorkload | ScriptWorkload)


def _level(run: Run, cluster: Cluster) -> str:
    namespace = cluster.namespaces.get(run.namespace)
    return namespace.pod_security if namespace else RESTRICTED


Layers = Iterable[tuple[str, Security]]
"""Statements with their pointers, from the widest to the nearest."""


def _planned(run: Run, cluster: Cluster, layers: Layers, own_image: bool) -> SecurityPlan:
    level, opaque = _level(run, cluster), own_image or _is_opaque(run)
    stated, sources = _stated([*(_of_profile(run, cluster) if opaque else ()), *layers])
    user = stated.get("user", None if opaque or stated.get("root") else USER_ID)
    privileged = bool(stated.get("privileged"))
    strict = not opaque or level == RESTRICTED
    return SecurityPlan(
        level=level,
        user=user,
        group=stated.get("group", user or None),
        fs_group=stated.get("fs_group", user or None),
        non_root=user != 0 and not stated.get("root", not (strict or user)),
        hardened=strict and not privileged,
        read_only_root=stated.get("read_only_root", not opaque),
        capabilities=stated.get("capabilities", ()),
        privileged=privileged,
        sources=sources,
    )


def _stated(layers: Layers) -> tuple[dict[str, Any], dict[str, str]]:
    """Field -> value, and field -> where it is stated: the nearest statement wins."""
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for pointer, layer in layers:
        said = {field: value for field, value in layer if value is not None}
        for forgotten in _outdated(said):
            values.pop(forgotten, None)
            sources.pop(forgotten, None)
        values |= said
        sources |= {field: f"{pointer}/{field}" for field in said}
    return values, sources


def _of_profile(run: Run, cluster: Cluster) -> Iterator[tuple[str, Security]]:
    """Defaults of a profile are for images that nobody here knows."""
    yield "cluster:/security", cluster.security
    if run.namespace in cluster.namespaces:
        yield f"cluster:/namespaces/{escape(run.namespace)}/security", cluster.namespaces[run.namespace].security


def _outdated(said: dict[str, Any]) -> tuple[str, ...]:
    """What a wider layer said, and a nearer one contradicts: ``user`` says whether it is root's, and ``root: true`` whose
    not. The group of the volumes is another matter.
    """
    if "user" in said:
        return ("root",)
    return ("user", "group") if said.get("root") else ()


def describe_security(security: SecurityPlan) -> str:
    """Who the processes are and what they may do, in a reader's words, and who says so."""
    ids = (("user", security.user), ("group", security.group), ("fs group", security.fs_group))
    image = "user and groups of the image" + (", unless its user is root" if security.non_root else "")
    said = [f"{label} {number}" for label, number in ids if number is not None] or [image]
    said.append("read-only root file system" if security.read_only_root else "writable root file system")
    said += [f"capability {name}" for name in security.capabilities]
    said += ["privileged"] if security.privileged else []
    who = dict.fromkeys("run" if source.startswith("run:") else "profile" for source in security.sources.values())
    stated = f"as stated by {' and '.join(who)}" if who else f"nothing is stated, and {security.level} asks for no more"
    return f"{', '.join(said)} ({stated})"
