"""Containers next to the one that trains, as runs and node pools state them, and the volumes that they bring."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from trainwright.findings.locate import escape
from trainwright.handshake import Role
from trainwright.manifest.provenance import Tree, Why
from trainwright.manifest.template.security import restricted
from trainwright.manifest.template.volumes import SCRATCH, mount_options, volume_of_its_own, written_source
from trainwright.plan import Resolution
from trainwright.plan.environment import stated_variables
from trainwright.plan.packages import SOURCE, packages_container, packages_of
from trainwright.plan.security import RESTRICTED
from trainwright.run import AnyContainer, Container, KubernetesContainer, Probe, Run, SharedMount, SharedVolume

Mounted = Mapping[str, Tree]
"""Path -> the mount that the container which trains has there."""


class Stated(NamedTuple):
    """A container, and where it is stated."""

    container: AnyContainer
    source: str


def pull_policy(run: Run) -> Tree:
    """Of a container with an image of the run."""
    policy = run.image_pull_policy
    return {"imagePullPolicy": Why(policy, "run:/image_pull_policy", "as asked")} if policy else {}


def all_stated(resolution: Resolution) -> list[Stated]:
    """Those that some pod of the run has: its own, and those of the pools that its pods go to."""
    roles = resolution.binding.roles
    return list({one.source: one for role in roles for one in containers_of_role(resolution, role)}.values())


def stated_images(resolution: Resolution) -> dict[str, str]:
    """Image of each container that is stated, the one that trains among them -> where."""
    stated = {}
    for container, source in all_stated(resolution):
        if isinstance(container, KubernetesContainer):
            stated[str(container.container["image"])] = f"{source}/container/image"
        else:
            stated[container.image] = f"{source}/image"
    return {**stated, resolution.run.image: "run:/image"}


def stated_containers(resolution: Resolution, role: Role) -> list[Stated]:
    """Those of the pool of a role, and then those of the run; one of the run replaces one of the pool with the same name."""
    run, (pool, offered) = resolution.run, resolution.pool_of(role)
    own = {container.name: Stated(container, f"run:/containers/{number}") for number, container in enumerate(run.containers)}
    brought = [
        Stated(container, f"cluster:/node_pools/{escape(pool)}/pods/containers/{number}")
        for number, container in enumerate(offered.pods.containers)
        if container.name not in own
    ]
    return [*_installer(resolution, role), *brought, *own.values()]


def _installer(resolution: Resolution, role: Role) -> list[Stated]:
    """What installs the packages of a script, before anything that the run or its pool states."""
    run, security = resolution.run, resolution.security_of(role)
    if not packages_of(run) or not role.holds_ranks:
        return []
    image, has_scratch = resolution.image(role)[0], SCRATCH in resolution.mounts[role.name] or security.read_only_root
    return [Stated(packages_container(run, resolution.cluster, image, security, has_scratch), SOURCE)]


def containers_of_role(resolution: Resolution, role: Role) -> list[Stated]:
    """Those in the pods of one role."""
    return [
        one
        for one in stated_containers(resolution, role)
        if role.name in one.container.roles or (not one.container.roles and role.holds_ranks)
    ]


def init_containers(resolution: Resolution, role: Role, mounted: Mounted) -> list[Why]:
    """What starts before the work, in the order in which it is stated."""
    stated = containers_of_role(resolution, role)
    return [_container(resolution, one, mounted) for one in stated if one.container.kind != "beside"]


def beside(resolution: Resolution, role: Role, mounted: Mounted) -> list[Why]:
    """What starts with the work."""
    stated = containers_of_role(resolution, role)
    return [_container(resolution, one, mounted) for one in stated if one.container.kind == "beside"]


def own_volumes(resolution: Resolution, role: Role) -> Iterator[Tree]:
    """Volumes of these containers alone."""
    for container, source in containers_of_role(resolution, role):
        if isinstance(container, KubernetesContainer):
            for number, volume in enumerate(container.volumes):
                if not isinstance(volume, SharedVolume):
                    yield {"name": _volume(container, number), **written_source(volume, f"{source}/volumes/{number}")}
            continue
        for number, (path, mount) in enumerate(container.mounts.items()):
            if not isinstance(mount, SharedMount):
                yield {"name": _volume(container, number), **volume_of_its_own(mount, f"{source}/mounts/{escape(path)}")}


def _volume(container: AnyContainer, number: int) -> str:
    """Unique in the pod: two containers may call different volumes by one name."""
    return f"of-{container.name}-{number}"


def _container(resolution: Resolution, stated: Stated, mounted: Mounted) -> Why:
    container, source = stated
    if isinstance(container, KubernetesContainer):
        return _as_written(container, source, mounted)
    amounts = {"cpu": str(container.cpu), "memory": str(container.memory)}
    security = _security(resolution, container, f"{source}/security")
    mounts = [_mount(container, number, path, mounted, source) for number, path in enumerate(container.mounts)]
    tree: Tree = {
        "name": container.name,
        "image": container.image,
        **({"restartPolicy": "Always"} if container.kind == "sidecar" else {}),
        **({"command": list(container.command)} if container.command else {}),
        **({"args": list(container.args)} if container.args else {}),
        **({"env": _variables(container, source)} if container.env else {}),
        "resources": {"requests": amounts, "limits": dict(amounts)},
        **({"startupProbe": probe(container.started)} if container.started else {}),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **({"securityContext": security} if security else {}),
        **({"volumeMounts": mounts} if mounts else {}),
    }
    return Why(tree, source, "as asked")


def _variables(container: Container, source: str) -> list[Why]:
    return [Why(one, f"{source}/env/{one['name']}", "as asked") for one in stated_variables(container.env)]


def _mount(container: Container, number: int, path: str, mounted: Mounted, source: str) -> Tree:
    mount = container.mounts[path]
    volume = _shared(mount.same_as, mounted) if isinstance(mount, SharedMount) else {"name": _volume(container, number)}
    return {"name": volume.pop("name"), "mountPath": path, **volume, **mount_options(mount, f"{source}/mounts/{escape(path)}")}


def _shared(path: str, mounted: Mounted) -> Tree:
    """The volume that the container which trains has at a path, and the folder or file in it that it has there."""
    there = mounted.get(path, {"name": path})
    return {key: there[key] for key in ("name", "subPath") if key in there}


def _as_written(container: KubernetesContainer, source: str, mounted: Mounted) -> Why:
    """As it is, but for what its kind says, and for the names of its volumes."""
    called: dict[str, Tree] = {}
    for number, volume in enumerate(container.volumes):
        if isinstance(volume, SharedVolume):
            name, in_pod = volume.name, _shared(volume.same_as, mounted)
        else:
            name, in_pod = str(volume["name"]), {"name": _volume(container, number)}
        called[name] = in_pod | {"name": Why(in_pod["name"], f"{source}/volumes/{number}", "what the pod calls the volume")}
    written: Tree = dict(container.container)
    tree: Tree = {key: written.pop(key) for key in ("name", "image")}
    if container.kind == "sidecar" and "restartPolicy" not in written:
        tree["restartPolicy"] = Why("Always", f"{source}/kind", "how Kubernetes writes a sidecar")
    for field in ("volumeMounts", "volumeDevices"):
        if field in written:
            written[field] = [one | _below(called[one["name"]], one) for one in written[field]]
    return Why(tree | written, f"{source}/container", "as asked")


def _below(shared: Tree, mount: Mapping[str, Any]) -> Tree:
    """What a mount that a container writes says of its volume, where that is a folder of the volume: a path in that folder."""
    folder = shared.get("subPath")
    own = next((key for key in ("subPath", "subPathExpr") if mount.get(key)), None)
    if folder is None or own is None:
        return shared
    return {"name": shared["name"], own: folder._replace(value=f"{folder.value}/{mount[own]}")}


def probe(stated: Probe) -> Tree:
    """As Kubernetes writes it."""
    if stated.command is not None:
        way: Tree = {"exec": {"command": list(stated.command)}}
    elif stated.http is not None:
        way = {"httpGet": {"path": stated.http, "port": stated.port}}
    else:
        way = {"tcpSocket": {"port": stated.port}}
    first: Tree = {"initialDelaySeconds": int(stated.after.seconds)} if stated.after else {}
    return {**way, **first, "periodSeconds": int(stated.every.seconds), "failureThreshold": stated.failures}


def _security(resolution: Resolution, container: Container, source: str) -> Tree:
    """What it states, and what a restricted namespace demands of every container."""
    asked, level = container.security, resolution.plan.security.level
    hardened = level == RESTRICTED and not asked.privileged
    capabilities: Tree = {"drop": restricted(["ALL"])} if hardened else {}
    if asked.capabilities:
        capabilities["add"] = Why(list(asked.capabilities), f"{source}/capabilities", "as asked")
    root = asked.root if asked.root is not None else asked.user == 0 if asked.user is not None else None
    said = f"{source}/{'user' if asked.root is None else 'root'}"
    return {
        **({} if asked.user is None else {"runAsUser": Why(asked.user, f"{source}/user", "as asked")}),
        **({} if asked.group is None else {"runAsGroup": Why(asked.group, f"{source}/group", "as asked")}),
        **({} if root is None else {"runAsNonRoot": Why(not root, said, "as asked")}),
        **({"privileged": Why(True, f"{source}/privileged", "as asked")} if asked.privileged else {}),
        **({"allowPrivilegeEscalation": restricted(False)} if hardened else {}),
        **({} if asked.read_only_root is None else {"readOnlyRootFilesystem": asked.read_only_root}),
        **({"capabilities": capabilities} if capabilities else {}),
    }
