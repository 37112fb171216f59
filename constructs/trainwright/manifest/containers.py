"""Containers next to the one that trains, as runs and node pools state them, and the volumes that they bring."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from trainwright.findings.locate import escape
from trainwright.handshake import Role
from trainwright.manifest.provenance import Tree, Why
from trainwright.manifest.volumes import volume_of_its_own
from trainwright.plan import Resolution
from trainwright.plan.environment import stated_variables
from trainwright.plan.security import RESTRICTED
from trainwright.run import Container, Probe, Run, SharedMount


class Stated(NamedTuple):
    """A container, and where it is stated."""

    container: Container
    source: str


def pull_policy(run: Run) -> Tree:
    """Of a container with an image of the run."""
    policy = run.image_pull_policy
    return {"imagePullPolicy": Why(policy, "run:/image_pull_policy", "as asked")} if policy else {}


def stated_containers(resolution: Resolution, role: Role | None = None) -> list[Stated]:
    """Those of the pool of a role, by default of the pods that hold ranks, and then those of the run; one of the run replaces one
    of the pool with the same name.
    """
    run, (pool, offered) = resolution.run, resolution.pool_of(role or resolution.binding.ranks)
    own = {container.name: Stated(container, f"run:/containers/{number}") for number, container in enumerate(run.containers)}
    brought = [
        Stated(container, f"cluster:/node_pools/{escape(pool)}/pods/containers/{number}")
        for number, container in enumerate(offered.pods.containers)
        if container.name not in own
    ]
    return [*brought, *own.values()]


def containers_of_role(resolution: Resolution, role: Role) -> list[Stated]:
    """Those in the pods of one role."""
    return [
        one
        for one in stated_containers(resolution, role)
        if role.name in one.container.roles or (not one.container.roles and role.holds_ranks)
    ]


def init_containers(resolution: Resolution, role: Role, volumes: dict[str, str]) -> list[Why]:
    """What starts before the work, in the order in which it is stated. ``volumes``: path of a mount -> volume."""
    stated = containers_of_role(resolution, role)
    return [_container(resolution, one, volumes) for one in stated if one.container.kind != "beside"]


def beside(resolution: Resolution, role: Role, volumes: dict[str, str]) -> list[Why]:
    """What starts with the work."""
    stated = containers_of_role(resolution, role)
    return [_container(resolution, one, volumes) for one in stated if one.container.kind == "beside"]


def own_volumes(resolution: Resolution, role: Role) -> Iterator[Tree]:
    """Volumes of these containers alone."""
    for container, source in containers_of_role(resolution, role):
        for number, (path, mount) in enumerate(container.mounts.items()):
            if not isinstance(mount, SharedMount):
                yield {"name": _volume(container, number), **volume_of_its_own(mount, f"{source}/mounts/{escape(path)}")}


def _volume(container: Container, number: int) -> str:
    return f"of-{container.name}-{number}"


def _container(resolution: Resolution, stated: Stated, volumes: dict[str, str]) -> Why:
    container, source = stated
    amounts = {"cpu": str(container.cpu), "memory": str(container.memory)}
    security = _security(resolution, container)
    mounts = [_mount(container, number, path, volumes) for number, path in enumerate(container.mounts)]
    tree: Tree = {
        "name": container.name,
        "image": container.image,
        **({"restartPolicy": "Always"} if container.kind == "sidecar" else {}),
        **({"command": list(container.command)} if container.command else {}),
        **({"args": list(container.args)} if container.args else {}),
        **({"env": stated_variables(container.env)} if container.env else {}),
        "resources": {"requests": amounts, "limits": dict(amounts)},
        **({"startupProbe": probe(container.started)} if container.started else {}),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **({"securityContext": security} if security else {}),
        **({"volumeMounts": mounts} if mounts else {}),
    }
    return Why(tree, source, "as asked")


def _mount(container: Container, number: int, path: str, volumes: dict[str, str]) -> Tree:
    mount = container.mounts[path]
    name = volumes.get(mount.same_as, mount.same_as) if isinstance(mount, SharedMount) else _volume(container, number)
    return {"name": name, "mountPath": path, **({"readOnly": True} if getattr(mount, "read_only", False) else {})}


def probe(stated: Probe) -> Tree:
    """As Kubernetes writes it."""
    if stated.command is not None:
        way: Tree = {"exec": {"command": list(stated.command)}}
    elif stated.http is not None:
        way = {"httpGet": {"path": stated.http, "port": stated.port}}
    else:
        way = {"tcpSocket": {"port": stated.port}}
    return {**way, "periodSeconds": int(stated.every.seconds), "failureThreshold": stated.failures}


def _security(resolution: Resolution, container: Container) -> Tree:
    """What it states, and what a restricted namespace demands of every container."""
    asked, level = container.security, resolution.plan.security.level
    hardened = level == RESTRICTED and not asked.privileged
    capabilities: Tree = {"drop": ["ALL"]} if hardened else {}
    if asked.capabilities:
        capabilities["add"] = list(asked.capabilities)
    root = asked.root if asked.root is not None else asked.user == 0 if asked.user is not None else None
    return {
        **({} if asked.user is None else {"runAsUser": asked.user}),
        **({} if asked.group is None else {"runAsGroup": asked.group}),
        **({} if root is None else {"runAsNonRoot": not root}),
        **({"privileged": True} if asked.privileged else {}),
        **({"allowPrivilegeEscalation": False} if hardened else {}),
        **({} if asked.read_only_root is None else {"readOnlyRootFilesystem": asked.read_only_root}),
        **({"capabilities": capabilities} if capabilities else {}),
    }
