"""Rules on containers and volumes that a run or a pool writes as Kubernetes does: their fields, and what the plan decides.

They come before the plan, so that nothing is made of a container that is none. What a pod may be is said of the finished pods.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from trainwright.findings import Finding
from trainwright.findings.codes import found
from trainwright.findings.context import Context
from trainwright.findings.locate import at, escape
from trainwright.manifest.plain import problems
from trainwright.run import AnyContainer, KubernetesContainer, KubernetesMount, SharedVolume
from trainwright.run.containers import LONGEST_NAME

Said = tuple[str, str, str, str]
"""Code, pointer below the part, message and fix."""


class Part(NamedTuple):
    """A container or a mount that is written as Kubernetes writes it."""

    written: KubernetesContainer | KubernetesMount
    source: str
    """``run:/pointer`` or ``cluster:/pointer``."""


def written_parts(context: Context) -> Iterator[Part]:
    """Those of the run, of its roles and of every pool."""
    yield from _of(context.run.containers, context.run.mounts, "run:")
    for name, parts in context.run.roles.items():
        yield from _mounts(parts.mounts, f"run:/roles/{escape(name)}")
    for name, pool in context.cluster.node_pools.items():
        yield from _of(pool.pods.containers, pool.pods.mounts, f"cluster:/node_pools/{escape(name)}/pods")


def _of(containers: Sequence[AnyContainer], mounts: Mapping[str, Any], above: str) -> Iterator[Part]:
    for number, container in enumerate(containers):
        source = f"{above}/containers/{number}"
        if isinstance(container, KubernetesContainer):
            yield Part(container, source)
        else:
            yield from _mounts(container.mounts, source)
    yield from _mounts(mounts, above)


def _mounts(mounts: Mapping[str, Any], above: str) -> Iterator[Part]:
    for path, mount in mounts.items():
        if isinstance(mount, KubernetesMount):
            yield Part(mount, f"{above}/mounts/{escape(path)}")


def is_valid(context: Context) -> Iterator[Finding]:
    """What the API's schemas do not allow, and what the plan decides."""
    parts = list(written_parts(context))
    version = _version(context.cluster.kubernetes) if parts else ""
    for written, source in parts:
        said = _container(written, version) if isinstance(written, KubernetesContainer) else _mount(written, version)
        for code, pointer, message, fix in list(_plain(written)) or said:
            yield found(code, context.locate.at(source + pointer), message, fix)


def _version(stated: str) -> str:
    """With schemas; a version that nobody knows is a finding of its own (TW307)."""
    from trainwright.validate.core_schemas import UnknownVersionError, known_version  # few runs need it, and it takes its time

    try:
        return known_version(stated)
    except UnknownVersionError:
        return known_version(None)


def _plain(written: KubernetesContainer | KubernetesMount) -> Iterator[Said]:
    """Values that JSON and YAML hold alike. Null is none: the schemas allow it almost everywhere, and cdk8s drops it."""
    parts: dict[str, object] = {"/volume": written.volume} if isinstance(written, KubernetesMount) else {
        "/container": written.container,
        **{f"/volumes/{number}": one for number, one in enumerate(written.volumes) if not isinstance(one, SharedVolume)},
    }
    for above, part in parts.items():
        for pointer, reason in problems(part, above):
            yield "TW107", pointer, f"{pointer} {reason}", "write it differently, or remove it"


def _schema(kind: str, value: object, version: str, pointer: str) -> Iterator[Said]:
    from trainwright.validate.core import part_structure  # as above

    for problem in part_structure(kind, value, version, pointer):
        yield "TW603", problem.pointer, problem.message, problem.fix


def _container(stated: KubernetesContainer, version: str) -> Iterator[Said]:
    wrong = list(_schema("Container", stated.container, version, "/container"))
    for number, volume in enumerate(stated.volumes):
        if not isinstance(volume, SharedVolume):
            wrong += [*_schema("Volume", volume, version, f"/volumes/{number}"), *_source(volume, f"/volumes/{number}")]
    yield from wrong
    if not wrong:  # what follows reads what the schemas allow
        yield from _names(stated)
        yield from _volumes(stated)
        yield from _amounts(stated)
        yield from _restarts(stated)


def _names(stated: KubernetesContainer) -> Iterator[Said]:
    """Of the container, its image and its variables."""
    container = stated.container
    if len(stated.name) > LONGEST_NAME:
        message = f"/container/name has {len(stated.name)} characters, too many for the names of its volumes, which contain it"
        yield "TW603", "/container/name", message, f"write at most {LONGEST_NAME}"
    if not stated.image:
        yield "TW603", "/container", "/container has no `image`", "add `image:`, pinned by digest"
    names = [str(one["name"]) for one in _list(container, "env")]
    ports = [f"{one['containerPort']}/{one.get('protocol', 'TCP')}" for one in _list(container, "ports")]
    for field, keys in (("env", names), ("ports", ports)):
        for number in (place for place, key in enumerate(keys) if key in keys[:place]):
            message = f"/container/{field} has {keys[number]} twice, which operators' kinds reject"
            yield "TW603", f"/container/{field}/{number}", message, "remove one of them"


def _volumes(stated: KubernetesContainer) -> Iterator[Said]:
    """Names of its volumes, and what a device can be made of."""
    container = stated.container
    names = [one.name if isinstance(one, SharedVolume) else str(one["name"]) for one in stated.volumes]
    for number, name in enumerate(names):
        if name in names[:number]:
            yield "TW603", f"/volumes/{number}", f"two volumes are called {name}", "give each a name of its own"
    for field in ("volumeMounts", "volumeDevices"):
        for number, mount in enumerate(_list(container, field)):
            if mount["name"] not in names:
                known = f"use one of: {', '.join(names)}; or " if names else ""
                message = f"container {stated.name} mounts {mount['name']}, which is not among its volumes"
                fix = f"{known}add it to volumes: `{{name: {mount['name']}, same_as: PATH}}` for what the run mounts at PATH"
                yield "TW603", f"/container/{field}/{number}/name", message, fix


    for number, device in enumerate(_list(container, "volumeDevices")):
        if device["name"] in names and not _is_block(stated.volumes[names.index(device["name"])]):
            message = f"volume {device['name']} is a file system, and volumeDevices wants a device"
            fix = "write `ephemeral` with volumeMode: Block in its claim; or mount the volume"
            yield "TW603", f"/container/volumeDevices/{number}/name", message, fix


def _is_block(volume: SharedVolume | Mapping[str, Any]) -> bool:
    """Claims of a run are file systems."""
    if isinstance(volume, SharedVolume):
        return False
    return bool(at(volume, "/ephemeral/volumeClaimTemplate/spec/volumeMode") == "Block")


def _amounts(stated: KubernetesContainer) -> Iterator[Said]:
    """An operator's kind takes a whole number or a text, and no other number, where a Pod takes any."""
    resources = stated.container.get("resources")
    for field, amounts in resources.items() if isinstance(resources, Mapping) else ():
        for name, amount in amounts.items() if isinstance(amounts, Mapping) else ():
            if isinstance(amount, float):
                pointer = f"/container/resources/{field}/{escape(name)}"
                yield "TW603", pointer, f"{pointer} is {amount}, a fraction without quotes", f'write "{amount}"'


def _list(owner: Mapping[str, Any], field: str) -> Sequence[Mapping[str, Any]]:
    return owner.get(field) or ()


def _restarts(stated: KubernetesContainer) -> Iterator[Said]:
    policy = stated.container.get("restartPolicy")
    if policy is not None and (stated.kind, policy) != ("sidecar", "Always"):
        message = f"/container/restartPolicy is {policy}, and kind is {stated.kind}, which says how the container comes back"
        yield "TW601", "/container/restartPolicy", message, "remove it; for restartPolicy: Always write kind: sidecar"
    if stated.container.get("restartPolicyRules"):
        message = "/container/restartPolicyRules says when a container restarts, which the plan decides"
        yield "TW601", "/container/restartPolicyRules", message, "remove it: a failed pod is replaced as a whole"


def _mount(stated: KubernetesMount, version: str) -> Iterator[Said]:
    if "name" in stated.volume:
        yield "TW601", "/volume/name", "/volume/name is the name of a volume, which the plan decides", "remove it"
        return
    named = {"name": "volume", **stated.volume}
    yield from (*_schema("Volume", named, version, "/volume"), *_source(named, "/volume"))


def _source(volume: Mapping[str, Any], pointer: str) -> Iterator[Said]:
    """A volume is one thing. A claim is a mount of the run: the plan reads there what is kept, and who may mount it."""
    sources = [key for key in volume if key != "name"]
    if len(sources) != 1:
        has = f"has {len(sources)} sources: {', '.join(sources)}" if sources else "has no source"
        yield "TW603", pointer, f"{pointer} {has}", "write one, such as `csi: {driver: …}`"
    elif sources == ["persistentVolumeClaim"]:
        claim = volume["persistentVolumeClaim"]
        name = claim.get("claimName", "NAME") if isinstance(claim, Mapping) else "NAME"
        message = f"{pointer} is a claim, which the plan reads among the mounts of the run"
        fix = f"write `PATH: {{claim: {name}}}` under mounts of the run; a container then shares it by `same_as: PATH`"
        yield "TW601", f"{pointer}/persistentVolumeClaim", message, fix


RUN = (is_valid,)
