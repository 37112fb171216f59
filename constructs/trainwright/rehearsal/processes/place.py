"""What a pod has of its own where it has namespaces: names of others, memory, files that it may write to, a user."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath

from trainwright.objects.formats import amount
from trainwright.rehearsal.setting import Setting
from trainwright.rehearsal.stated.kinds import Container
from trainwright.rehearsal.stated.pod import Pod
from trainwright.rehearsal.stated.volumes import SHARED_MEMORY

DEFAULT_MEMORY = 64 << 20
"""Of /dev/shm where a pod states none (containerd, defaultShmSize)."""
HOSTS, PASSWD, RESOLVER = "/etc/hosts", "/etc/passwd", "/etc/resolv.conf"
NO_RESOLVER = "nameserver 127.0.0.1\n"
"""Nobody listens there, so that a name that no file has is refused at once."""
TEMPORARY = "/tmp"  # noqa: S108 - path inside the container


@dataclass(frozen=True, slots=True)
class Place:
    """What a container has of its own, as :mod:`container_init` reads it."""

    namespaces: tuple[int, ...]
    """Descriptors: of users, of mounts, and of the pod's network."""
    host_name: str
    files: Mapping[str, str]
    """Path in the container -> what is bound there."""
    read_only: tuple[str, ...]
    """Folders of this machine that it may not write to."""
    writable: tuple[str, ...]
    sealed: bool
    """Whether all other folders are read-only."""
    directory: str
    user: tuple[int, int] | None
    """Numbers of user and group that it sees as its own; None for the caller's."""

    def __str__(self) -> str:
        return json.dumps(asdict(self))


def make_place(
    container: Container, pod: Pod, setting: Setting, folders: Mapping[str, Path], own: Sequence[Path], directory: Path
) -> Place | None:
    """The place of a container; None where its pod shares this machine's.

    Args:
        folders: mount path -> what stands for it here.
        own: further files and folders that it may write to.
    """
    namespaces = setting.network.namespaces(pod.slot.number)
    if not namespaces:
        return None
    user, home = stated_user(pod, container), setting.workspace.pod(pod.name)
    files = {HOSTS: home / HOSTS[1:], SHARED_MEMORY: _memory(container, pod, setting)}
    if Path(RESOLVER).exists():
        files[RESOLVER] = home / RESOLVER[1:]
    if user:
        files[PASSWD] = _with_user(home / PASSWD[1:], user, home)
    free, guarded = _mounted(container, pod, folders)
    sealed = bool(container.security_context.get("readOnlyRootFilesystem"))
    writable = {*own, *free} if sealed else set[Path]()
    if sealed and TEMPORARY in folders:
        writable.add(Path(TEMPORARY))  # this machine's too: programs that no variable reaches write there
    for path in writable:
        if not path.exists():
            path.mkdir(parents=True)
    return Place(
        namespaces, pod.host_name, {path: str(file) for path, file in files.items()},
        tuple(map(str, sorted(guarded))), tuple(map(str, sorted(writable))), sealed, str(directory), user,
    )  # fmt: skip


def _mounted(container: Container, pod: Pod, folders: Mapping[str, Path]) -> tuple[set[Path], set[Path]]:
    """What it may write to, and what not. A folder that it has in both ways, or a part of it, is free: here it is one."""
    volumes, free, guarded = pod.spec.volumes_by_name, set[Path](), set[Path]()
    for mount in container.volume_mounts:
        if (path := str(PurePosixPath(mount.mount_path))) in folders:
            (guarded if mount.read_only or volumes[mount.name].is_read_only else free).add(folders[path])
    shared = {one for one in guarded for other in free if one.is_relative_to(other) or other.is_relative_to(one)}
    return free, {one for one in guarded - shared if one.is_dir()}


def write_hosts(pod: Pod, setting: Setting) -> None:
    """A pod's /etc/hosts: what the kubelet writes, and the names of pods that the cluster's DNS knows."""
    dns, records = setting.dns, setting.workspace.records
    known = [slot for slot in setting.objects.slots if not dns.hidden(slot) or (records / dns.address(slot)).exists()]
    lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback", f"{pod.address} {pod.host_name}"]
    path = setting.workspace.pod(pod.name) / HOSTS[1:]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in [*lines, *map(dns.record, known)]), encoding="utf-8")
    (setting.workspace.pod(pod.name) / RESOLVER[1:]).write_text(NO_RESOLVER)


def publish(pod: Pod, setting: Setting) -> None:
    """From now on a Service leads to it, in the eyes of all pods."""
    dns, slot = setting.dns, pod.slot
    if dns.hidden(slot) and not (setting.workspace.records / pod.address).exists():
        for hosts in setting.workspace.pods.glob(f"*{HOSTS}"):
            with hosts.open("a", encoding="utf-8") as file:
                file.write(f"{dns.record(slot)}\n")
    for name in dns.record(slot).split():
        (setting.workspace.records / name).touch()


def stated_user(pod: Pod, container: Container) -> tuple[int, int] | None:
    """User and group that the pod's specification states; None where it leaves them to the image, or where they are the caller's.

    A group that is not stated is 0, unless the image knows the user (kubernetes.io, "Configure a security context").
    """
    security = {**pod.spec.security_context, **container.security_context}
    user, group = security.get("runAsUser"), security.get("runAsGroup")
    if user is None and group is None:
        return None
    stated = os.geteuid() if user is None else int(user), int(group or 0)
    return None if stated == (os.geteuid(), os.getegid()) else stated


def _memory(container: Container, pod: Pod, setting: Setting) -> Path:
    """What is mounted at /dev/shm, else that of the pod's sandbox, which all its containers share."""
    mounted = [one.name for one in container.volume_mounts if PurePosixPath(one.mount_path) == PurePosixPath(SHARED_MEMORY)]
    volume = pod.spec.volumes_by_name[mounted[0]] if mounted else None
    if volume is None and pod.spec.host_ipc:
        return Path(SHARED_MEMORY)
    folder = setting.workspace.pod(pod.name) / "memory" / f"{volume.name if volume else ''}.{pod.uid}"
    if not folder.exists():
        folder.mkdir(parents=True)
        size = amount((volume.empty_dir or {}).get("sizeLimit")) if volume else DEFAULT_MEMORY
        setting.network.mount_memory(pod.slot.number, folder, None if size is None else int(size))
    return folder


def _with_user(path: Path, user: tuple[int, int], home: Path) -> Path:
    """This machine's users, and one of that number: sshd lets nobody in whom it does not know, or whose account is locked."""
    others = [line for line in Path(PASSWD).read_text(encoding="utf-8").splitlines() if line.split(":")[2:3] != [str(user[0])]]
    own = f"user{user[0]}:x:{user[0]}:{user[1]}::{home}:/bin/sh"
    path.write_text("".join(f"{line}\n" for line in (*others, own)), encoding="utf-8")
    return path
