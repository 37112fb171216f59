"""What the pods of a run find in their files: the ConfigMap with its files, volumes, and where they are mounted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from trainwright.findings.locate import escape
from trainwright.handshake import Role
from trainwright.manifest.kinds import GroupKind, ObjectKind, Owned
from trainwright.manifest.labels import namespace_of, object_labels
from trainwright.manifest.provenance import Answer, Provenance, Tree, Why
from trainwright.manifest.template.bringing import VOLUME, bring_mount, bring_volume
from trainwright.plan import Resolution
from trainwright.plan.model import ControlPlan, DataPlan
from trainwright.plan.specification import Payload
from trainwright.plan.stated import Stated
from trainwright.rendezvous.mpi import MPI
from trainwright.rendezvous.ray import RayPods
from trainwright.run import (
    ClaimMount,
    ConfigMapMount,
    CsiMount,
    EphemeralMount,
    HostPathMount,
    ImageMount,
    KubernetesMount,
    Mount,
    NfsMount,
    ProjectedConfigMap,
    ProjectedFields,
    ProjectedMount,
    ProjectedSecret,
    ProjectedToken,
    ScratchMount,
    SecretMount,
    SharedMount,
)
from trainwright.run.surroundings import OwnMount, ProjectedSource
from trainwright_trainer.contract.layout import BROUGHT_FOLDER, SECRET_DIRECTORY, SECRET_FILE, SPEC_DIRECTORY


def configuration(resolution: Resolution) -> list[dict[str, Any]]:
    """The ConfigMap, immutable and named like the run's other objects: an edit is a new run. Empty if the run brings no file."""
    run, plan = resolution.run, resolution.plan
    if not resolution.payloads:
        return []
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": plan.name, "namespace": namespace_of(plan), "labels": object_labels(run)},
            "immutable": True,
            "data": {payload.key: Why(payload.text, payload.source, payload.reason) for payload in resolution.payloads},
        }
    ]


def payload_provenance(resolution: Resolution) -> dict[str, Provenance]:
    """Key of the ConfigMap -> where the values inside that file come from, by pointer into it."""
    return {
        payload.key: {pointer: Answer(source, reason) for pointer, (source, reason) in payload.answers.items()}
        for payload in resolution.payloads
        if payload.answers
    }


CONFIG_MAP = ObjectKind(
    GroupKind("", "ConfigMap"),
    reasons={
        "": "the files that the pods read; mounted into every pod",
        "/metadata": "named like the run's other objects",
        "/metadata/labels": "labels of the run's objects",
        "/immutable": "pods of one identity all read the same: a change is a new run, with a new name",
        "/data": "each file under its own key",
    },
    owned=(Owned(r"/immutable|/data.*|/binaryData.*", "the specification of the run", "change the run's own fields"),),
)


SHARED_MEMORY = "/dev/shm"  # noqa: S108 - paths inside the container
SCRATCH = "/tmp"  # noqa: S108
"""Where the plan mounts scratch beside a root that is read-only, unless the run or its pool mounts something of its own there."""
RESERVED_PATHS = (SHARED_MEMORY, SPEC_DIRECTORY, SECRET_DIRECTORY, BROUGHT_FOLDER)
"""Mount paths that the plan owns."""

CONTROL_SECRET = "control-secret"  # noqa: S105 - a name
"""Volume with the secret by which the pods know each other."""

_SSHD = "sshd"
"""Volume that sshd writes to, or that with a number behind it where a claim is called so."""

_LABEL = re.compile(r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")
_OWN_VOLUMES = frozenset({"shm", "tmp", "spec", CONTROL_SECRET, "ssh-auth", "mpi-job-config", "mpi-ssh-auth", "mpi-hostfile"})
"""Names of the plan's volumes, and of those that operators add for mpirun and that would replace any other of that name."""


_KINDS: dict[type[Mount], str] = {
    ScratchMount: "scratch", EphemeralMount: "ephemeral", ConfigMapMount: "config-map", SecretMount: "secret",
    HostPathMount: "host-path", NfsMount: "nfs", CsiMount: "csi", ImageMount: "image", ProjectedMount: "projected",
}
"""Of mounts with a volume of their own: the first part of its name."""
_GIVEN = re.compile(rf"({'|'.join(_KINDS.values())})-[0-9]+")
_AS_WRITTEN = "volume"
"""The same of a volume as Kubernetes writes it. A claim may be called so, as it always could: its name stays."""


def volumes(resolution: Resolution, role: Role) -> list[dict[str, Any]]:
    """Volumes for shared memory, scratch, the run's files, then its own mounts; a claim mounted twice is one volume."""
    plan, stated = resolution.plan, resolution.mounts[role.name]
    own: list[dict[str, Any]] = []
    if memory := shared_memory(resolution, role):
        own.append({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": memory}})
    if _has_scratch(resolution, role):
        own.append({"name": "tmp", "emptyDir": Why({}, "trainwright", "scratch: the root file system is read-only")})
    if _sshd_folder(resolution, role):
        empty = Why({}, "trainwright", "what sshd writes, beside read-only files")
        own.append({"name": _free_name(_SSHD, stated), "emptyDir": empty})
    config_map = {"name": Why(plan.name, "trainwright", "the run's files")}
    if any(payload.folder in (None, SPEC_DIRECTORY) for payload in _payloads(resolution, role)):
        own.append({"name": "spec", "configMap": {**config_map, **_own_modes(resolution)}})
    own += [{"name": name, "configMap": {**config_map, **_of_folder(resolution, folder)}}
            for name, folder in _file_folders(resolution, role).items()]  # fmt: skip
    if plan.control and plan.control.secret and not role.further:
        own.append({"name": CONTROL_SECRET, "secret": _control_secret(plan.control, plan.namespace)})
    own += bring_volume(resolution, role, brought_volume(resolution, role))
    names = volume_names(stated)
    for path, (mount, source) in stated.items():
        if not isinstance(mount, ClaimMount):
            own.append({"name": names[path], **volume_of_its_own(mount, source)})
        elif names[path] not in {volume["name"] for volume in own}:
            claim: dict[str, Any] = {"claimName": Why(mount.claim, f"{source}/claim", "as asked")}
            if all(m.read_only for m, _ in stated.values() if isinstance(m, ClaimMount) and m.claim == mount.claim):
                claim["readOnly"] = Why(True, f"{source}/read_only", "every mount of this claim is read-only")
            own.append({"name": names[path], "persistentVolumeClaim": claim})
    return [*own, *({"name": name, **volume_of_its_own(mount, source)} for name, _, mount, source in _of_pool(resolution, role))]


def _of_pool(resolution: Resolution, role: Role) -> Iterator[tuple[str, str, OwnMount, str]]:
    """Name, path, mount and source of what the node pool mounts, where the run mounts nothing."""
    pool, offered = resolution.pool_of(role)
    source = f"cluster:/node_pools/{escape(pool)}/pods/mounts"
    for number, (path, mount) in enumerate(offered.pods.mounts.items()):
        if path not in resolution.mounts[role.name]:
            yield f"of-pool-{number}", path, mount, f"{source}/{escape(path)}"


def _control_secret(control: ControlPlan, namespace: str) -> Tree:
    source, reason = f"cluster:/namespaces/{escape(namespace)}/control_secret", "the Secret that the profile names"
    return {
        "secretName": Why(control.secret, f"{source}/name", reason),
        "items": [{"key": Why(control.key, f"{source}/key", reason), "path": SECRET_FILE}],
        "defaultMode": Why(0o444, "trainwright", "a pod's user reads it, whoever that is; nobody writes it"),
    }


def volume_of_its_own(mount: Mount, source: str) -> Tree:
    """The source of a volume that one mount has for itself."""
    match mount:
        case ScratchMount():
            return {"emptyDir": {"sizeLimit": Why(str(mount.scratch), source, "scratch as asked")}}
        case EphemeralMount():
            wanted: Tree = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": str(mount.ephemeral)}}}
            if mount.storage_class:
                wanted["storageClassName"] = Why(mount.storage_class, f"{source}/storage_class", "as asked")
            return {"ephemeral": Why({"volumeClaimTemplate": {"spec": wanted}}, source, "a volume of each pod's own, as asked")}
        case ConfigMapMount():
            return {"configMap": Why({"name": mount.config_map, **_files_of(mount)}, source, "as asked")}
        case SecretMount():
            return {"secret": Why({"secretName": mount.secret, **_files_of(mount)}, source, "as asked; values stay there")}
        case HostPathMount():
            kind = {"type": mount.type} if mount.type else {}
            return {"hostPath": Why({"path": mount.host_path, **kind}, source, "a path of the node, as asked")}
        case NfsMount():
            server: Tree = {"server": mount.nfs, "path": mount.path, **_read_only(mount)}
            return {"nfs": Why(server, source, "as asked")}
        case CsiMount():
            attributes = {"volumeAttributes": dict(sorted(mount.attributes.items()))} if mount.attributes else {}
            secret = {"nodePublishSecretRef": {"name": mount.secret}} if mount.secret else {}
            return {"csi": Why({"driver": mount.csi, **_read_only(mount), **attributes, **secret}, source, "as asked")}
        case ImageMount():
            reference = Why(mount.image, f"{source}/image", "as asked")
            return {"image": Why({"reference": reference}, source, "the files of an image, as asked")}
        case ProjectedMount():
            sources = [_projected(one) for one in mount.projected]
            return {"projected": Why({"sources": sources, **_mode(mount)}, source, "files from several places, as asked")}
        case KubernetesMount():
            return written_source(mount.volume, f"{source}/volume")
    raise AssertionError(mount)


def written_source(volume: Mapping[str, Any], source: str) -> Tree:
    """The source of a volume as Kubernetes writes it, each value from its own line."""
    return {key: Why(value, f"{source}/{escape(key)}", "as asked") for key, value in volume.items() if key != "name"}


def _projected(stated: ProjectedSource) -> Tree:
    match stated:
        case ProjectedConfigMap():
            return {"configMap": {"name": stated.config_map, **_items(stated)}}
        case ProjectedSecret():
            return {"secret": {"name": stated.secret, **_items(stated)}}
        case ProjectedFields():
            fields = sorted(stated.fields.items())
            return {"downwardAPI": {"items": [{"path": path, "fieldRef": {"fieldPath": field}} for path, field in fields]}}
        case ProjectedToken():
            expires = stated.expires.seconds
            return {"serviceAccountToken": {"path": stated.token, "audience": stated.audience, "expirationSeconds": expires}}


def _files_of(mount: ConfigMapMount | SecretMount) -> Tree:
    """Which keys become files, and their permissions, which JSON holds in decimal."""
    return {**_items(mount), **_mode(mount)}


def _items(stated: ConfigMapMount | SecretMount | ProjectedConfigMap | ProjectedSecret) -> Tree:
    items = [{"key": key, "path": path} for key, path in sorted(stated.items.items())]
    return {"items": items} if items else {}


def _mode(mount: ConfigMapMount | SecretMount | ProjectedMount) -> Tree:
    return {"defaultMode": int(mount.mode, 8)} if mount.mode else {}


def _read_only(mount: NfsMount | CsiMount) -> Tree:
    return {"readOnly": True} if mount.read_only else {}


def shared_memory(resolution: Resolution, role: Role) -> Why | None:
    """Size of the shared memory that the pod gets from us: its ranks' and their loaders'. It is sized for them, so next to the
    small share of a pod without ranks it would promise more than there is; the runtime's own 64 MiB stay, unless the run states
    some for its role.
    """
    parts, stated = resolution.run.roles.get(role.name), resolution.run.resources.shared_memory
    if parts and parts.resources.shared_memory:
        return Why(str(parts.resources.shared_memory), f"run:/roles/{role.name}/resources/shared_memory", "as asked")
    if not role.holds_ranks or (resolution.binding.part(RayPods) is not None and not stated):
        return None
    resources = resolution.counted[role.name]
    return Why(str(resources.shm), "run:/resources/shared_memory" if stated else "trainwright", resources.shm_reason)


def _has_scratch(resolution: Resolution, role: Role) -> bool:
    stated = SCRATCH in resolution.mounts[role.name] or SCRATCH in resolution.pool_of(role)[1].pods.mounts
    return resolution.security_of(role).read_only_root and not stated


def brought_volume(resolution: Resolution, role: Role) -> str:
    """Name of the volume with the supervisor that a pod brings along."""
    return _free_name(VOLUME, resolution.mounts[role.name])


def _sshd_folder(resolution: Resolution, role: Role) -> str | None:
    """Of workers that mpirun reaches by the sshd of an image made for root; None where the run mounts something there itself."""
    mpi = resolution.needs.part(MPI)
    waits = mpi and role.holds_ranks and not resolution.binding.runs_the_work(role)
    return mpi.ssh.folder if mpi and waits and mpi.ssh.folder not in resolution.mounts[role.name] else None


def volume_mounts(resolution: Resolution, role: Role) -> list[dict[str, Any]]:
    """The mounts of the main container, in the order of the volumes."""
    plan, stated = resolution.plan, resolution.mounts[role.name]
    mounts: list[dict[str, Any]] = []
    if memory := shared_memory(resolution, role):
        mounts.append({"name": "shm", "mountPath": Why(SHARED_MEMORY, memory.source, memory.reason)})
    if _has_scratch(resolution, role):
        scratch = Why(SCRATCH, "trainwright", "scratch: the root file system is read-only")
        mounts.append({"name": "tmp", "mountPath": scratch})
    if folder := _sshd_folder(resolution, role):
        where = Why(folder, "trainwright", "the root file system is read-only, and sshd needs this folder and a key of its host")
        mounts.append({"name": _free_name(_SSHD, stated), "mountPath": where})
    mounts += _files(resolution, role)
    if plan.control and plan.control.secret and not role.further:
        where = Why(SECRET_DIRECTORY, "trainwright", "the secret by which the pods of the run know each other")
        mounts.append({"name": CONTROL_SECRET, "mountPath": where, "readOnly": True})
    mounts += bring_mount(resolution, role, brought_volume(resolution, role))
    names, prepared = volume_names(stated), {data.path: data for data in prepared_in(resolution, role)}
    for path, (mount, source) in stated.items():
        if path in prepared:
            mounts.append(_prepared(prepared.pop(path), names))
            continue
        mounts.append({"name": names[path], "mountPath": Why(path, source, "as asked"), **mount_options(mount, source)})
    for name, path, mount, source in _of_pool(resolution, role):
        where = Why(path, source, "of every pod in the pool")
        mounts.append({"name": name, "mountPath": where, **mount_options(mount, source)})
    return [*mounts, *(_prepared(data, names) for data in prepared.values())]


def mount_options(mount: Mount | SharedMount, source: str) -> Tree:
    """What a mount states besides its volume and its path."""
    sub_path, read_only = getattr(mount, "sub_path", None), getattr(mount, "read_only", False)
    return {
        **({"subPath": Why(sub_path, f"{source}/sub_path", "as asked")} if sub_path else {}),
        **({"readOnly": Why(True, f"{source}/read_only", "as asked")} if read_only else {}),
    }


def prepared_in(resolution: Resolution, role: Role) -> list[DataPlan]:
    """Data that a role's pods can see: its claim is mounted there as the run mounts it."""
    there, of_ranks = resolution.mounts[role.name], resolution.run.rank_mounts
    return [data for data in resolution.plan.data if data.mount in there and there[data.mount].value == of_ranks[data.mount]]


def _prepared(data: DataPlan, names: dict[str, str]) -> dict[str, Any]:
    """The folder of one source, at the path that the run reads; it is there once the pod's first container has ended."""
    source = f"run:/prepare/{escape(data.path)}"
    return {
        "name": names[data.mount],
        "mountPath": Why(data.path, source, "as asked"),
        "subPath": Why(data.folder, f"{source}/source", "called after the source: another source is another folder"),
        "readOnly": Why(True, "trainwright", "what was fetched stays as it is"),
    }


def _own_modes(resolution: Resolution) -> Tree:
    """All keys by name, where one of them has a mode: a list that is there lists all files."""
    here = [payload for payload in resolution.payloads if payload.folder in (None, SPEC_DIRECTORY)]
    modes = [_mode_of(resolution, payload, "mode") for payload in here]
    items = [{"key": payload.key, "path": payload.key, **mode} for payload, mode in zip(here, modes, strict=True)]
    return {"items": items} if any(modes) else {}


def _of_folder(resolution: Resolution, folder: str) -> Tree:
    """The files of one of the run's folders, and their permissions: at the folder where all have the same."""
    here = [payload for payload in resolution.payloads if payload.folder == folder]
    alike = len({resolution.run.file_modes.get(payload.path) for payload in here}) == 1
    items = [
        {"key": payload.key, "path": str(PurePosixPath(payload.path).relative_to(folder)),
         **({} if alike else _mode_of(resolution, payload, "mode"))}
        for payload in here
    ]  # fmt: skip
    return {"items": items, **(_mode_of(resolution, here[0], "defaultMode") if alike else {})}


def _mode_of(resolution: Resolution, payload: Payload, key: str) -> Tree:
    mode = resolution.run.file_modes.get(payload.path)
    return {key: Why(int(mode, 8), f"run:/file_modes/{escape(payload.path)}", "as asked")} if mode else {}


def _payloads(resolution: Resolution, role: Role) -> list[Payload]:
    """The files that a role's pods read: those of the trainer are for ranks."""
    return [payload for payload in resolution.payloads if payload.folder != SPEC_DIRECTORY or not role.further]


def _file_folders(resolution: Resolution, role: Role) -> dict[str, str]:
    """Name of a volume -> the folder of the run that it is."""
    stated = resolution.mounts[role.name]
    return {_free_name(f"files-{number}", stated): path for number, path in enumerate(resolution.run.file_folders)}


def _files(resolution: Resolution, role: Role) -> list[dict[str, Any]]:
    """The trainer's folder and those of the run as a whole, and each other file at its own path."""
    mounts: list[dict[str, Any]] = []
    if any(payload.folder == SPEC_DIRECTORY for payload in _payloads(resolution, role)):
        mounts.append(
            {"name": "spec", "mountPath": Why(SPEC_DIRECTORY, "trainwright", "the run's specification"), "readOnly": True}
        )
    mounts += [
        {
            "name": "spec",
            "mountPath": Why(payload.path, payload.source, payload.reason),
            "subPath": Why(payload.key, "trainwright", "one file of the ConfigMap; it never changes, so it needs no update"),
            "readOnly": True,
        }
        for payload in resolution.payloads
        if payload.folder is None
    ]
    for number, (name, folder) in enumerate(_file_folders(resolution, role).items()):
        where = Why(folder, f"run:/file_folders/{number}", "as asked: a folder of the run's files alone")
        mounts.append({"name": name, "mountPath": where, "readOnly": True})
    return mounts


def volume_names(mounts: Mapping[str, Stated[Mount]]) -> dict[str, str]:
    """Mount path -> volume name: the claim's own name where that is a free DNS label, else a numbered one."""
    names: dict[str, str] = {}
    by_claim: dict[str, str] = {}
    for number, (path, (mount, _)) in enumerate(mounts.items()):
        if isinstance(mount, KubernetesMount):
            names[path] = _free_name(f"{_AS_WRITTEN}-{number}", mounts)
            continue
        if not isinstance(mount, ClaimMount):
            names[path] = f"{_KINDS[type(mount)]}-{number}"
            continue
        name = mount.claim if _LABEL.match(mount.claim) and mount.claim not in _OWN_VOLUMES else f"claim-{number}"
        if name.startswith(("scratch-", "claim-", "of-")) or _GIVEN.fullmatch(name):  # the names that are given here
            name = f"claim-{number}"
        names[path] = by_claim.setdefault(mount.claim, name)
    return names


def _free_name(name: str, mounts: Mapping[str, Stated[Mount]]) -> str:
    """A name that no claim in the pod has."""
    claims = {mount.claim for mount, _ in mounts.values() if isinstance(mount, ClaimMount)}
    while name in claims:
        name += "-2"
    return name
