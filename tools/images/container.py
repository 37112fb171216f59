"""A container of a pod as the kubelet hands it to a container runtime: the configuration of an OCI bundle.

The pod's own YAML says who runs, what is mounted, and what is forbidden; the image adds its variables, its user and its working
directory. Rules of the runtime specification and of containerd's defaults (oci/spec.go) fill in what neither says.
"""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from trainwright.manifest.template.bringing import BRING_CONTAINER
from trainwright.rehearsal.stated.environment import command_line, container_environment
from trainwright.rehearsal.stated.kinds import Container, Volume
from trainwright.rehearsal.stated.objects import Blocker, CannotPlayError, CannotWorkError, Objects
from trainwright.rehearsal.stated.pod import Pod
from trainwright.rehearsal.stated.volumes import VolumeFolders, rendered_files, write_files

Tree = Mapping[str, Any]

SECCOMP = Path("/usr/share/containers/seccomp.json")
"""The default profile of container runtimes, from Debian's package containers-common."""
DEFAULT_CAPABILITIES = frozenset({
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "NET_RAW", "SETFCAP",
    "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
})
MASKED = (
    "/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/timer_stats",
    "/proc/sched_debug", "/sys/firmware", "/proc/scsi",
)
READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - path inside the container
_SUFFIXES = {"": 1, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


@dataclass(frozen=True, slots=True)
class Image:
    """An image that is mounted, and what its configuration says."""

    root: Path
    settings: Tree
    """``config`` of the OCI image specification."""

    @property
    def environment(self) -> dict[str, str]:
        return dict(entry.split("=", 1) for entry in self.settings.get("Env") or ())


@dataclass(frozen=True, slots=True)
class Place:
    """A pod, in what it is played with."""

    objects: Objects
    pod: Pod
    folders: VolumeFolders
    network: Path
    """Network namespace of the pod."""
    hosts: str
    """``/etc/hosts``: the names of all pods, in place of the cluster's DNS."""
    images: Mapping[str, Path] = field(default_factory=dict)
    """Name of a volume that is an image -> the folder that stands for it."""
    name: str = ""
    """Of the container that is played; the pod's main one if empty."""

    @property
    def template(self) -> Tree:
        """The pod's ``spec`` as its controller sends it: rules of security and resources are read from there."""
        return self.pod.slot.made.spec

    @property
    def container(self) -> Tree:
        """The container that is played, as its controller sends it. Raises :class:`CannotPlayError` where there are others than
        the main one and what brings its supervisor.
        """
        before, containers = self.template.get("initContainers") or (), self.template["containers"]
        others = [one for one in before if one["name"] != BRING_CONTAINER]
        if len(containers) + len(others) != 1:
            message = f"it has {len(containers) + len(others)} containers, and this plays pods of one"
            raise CannotPlayError([Blocker(f"pod {self.pod.name}", message, "choose a run whose pods have one")])
        found: Tree = next(one for one in (*containers, *before) if self.name in ("", one["name"]))
        return found

    @property
    def played(self) -> Container:
        """The same, as a rehearsal reads it."""
        return next(one for one in self.pod.spec.all_containers if one.name == self.container["name"])

    @property
    def bringing(self) -> Iterator[Place]:
        """The containers that run before it."""
        yield from (replace(self, name=one["name"]) for one in self.template.get("initContainers") or ())

    @property
    def home(self) -> Path:
        """A folder of the container's own."""
        return self.folders.pod / (self.name or "main")

    @property
    def security(self) -> dict[str, Any]:
        """The container's own rules before the pod's."""
        return {**(self.template.get("securityContext") or {}), **(self.container.get("securityContext") or {})}

    @property
    def termination_message(self) -> Path:
        return self.home / "termination-log"


def bundle(place: Place, image: Image) -> Path:
    """Make the folder that crun starts the container from; returns it."""
    folder = place.home
    configuration = configure(place, image)
    make_mount_points(image.root, configuration["mounts"])
    (folder / "config.json").write_text(json.dumps(configuration, indent=2), encoding="utf-8")
    return folder


def make_mount_points(root: Path, mounts: Sequence[Tree]) -> None:
    """What crun would make in the root by itself: pods share it here, and two that make one folder at a time fail."""
    for mount in sorted(mounts, key=lambda mount: str(mount["destination"])):
        if mount["destination"].startswith(("/dev/", "/proc/", "/sys/")):
            continue  # in what is mounted there
        point, source = root / mount["destination"][1:], Path(mount["source"])
        if source.is_file():
            point.parent.mkdir(parents=True, exist_ok=True)
            point.touch()
        else:
            point.mkdir(parents=True, exist_ok=True)


def configure(place: Place, image: Image, profile: Path = SECCOMP) -> dict[str, Any]:
    """``config.json`` of the runtime specification, with all folders and files that it mounts made."""
    security, pod = place.security, place.pod
    place.home.mkdir(parents=True, exist_ok=True)
    return {
        "ociVersion": "1.0.2",
        "hostname": pod.host_name,
        "root": {"path": str(image.root), "readonly": bool(security.get("readOnlyRootFilesystem"))},
        "process": process(place, image),
        "mounts": [*_runtime_mounts(), *_kubelet_mounts(place), *_volume_mounts(place)],
        "linux": {
            "namespaces": [
                *({"type": kind} for kind in ("pid", "ipc", "uts", "mount")), {"type": "network", "path": str(place.network)},
            ],
            "resources": resources(place.container.get("resources") or {}),
            "cgroupsPath": f"/trainwright-{pod.uid}-{place.played.name}",
            "maskedPaths": list(MASKED),
            "readonlyPaths": list(READ_ONLY),
            **({"seccomp": seccomp(profile)} if (security.get("seccompProfile") or {}).get("type") == "RuntimeDefault" else {}),
        },
    }


def process(place: Place, image: Image) -> dict[str, Any]:
    """Who runs what, with which variables and rights."""
    security, main = place.security, place.played
    found = container_environment(main, place.pod, place.objects, {}, f"pod {place.pod.name}")
    if found.problems:
        raise CannotWorkError(found.problems)
    words = command_line(main, found.values)
    start = image.settings.get("Entrypoint") or ()
    if not main.command:  # then args replace the image's, and not its entrypoint
        words = (*start, *(words or image.settings.get("Cmd") or ()))
    variables = {**image.environment, "HOSTNAME": place.pod.host_name, **found.values}
    uid, gid = _user(security, image, place.pod.name)
    rights = capabilities(security.get("capabilities") or {})
    return {
        "terminal": False,
        "user": {"uid": uid, "gid": gid, "additionalGids": [security["fsGroup"]] if "fsGroup" in security else []},
        "args": list(words),
        "env": [f"{name}={value}" for name, value in variables.items()],
        "cwd": main.working_dir or image.settings.get("WorkingDir") or "/",
        "noNewPrivileges": security.get("allowPrivilegeEscalation") is False,
        "capabilities": {"bounding": rights} | ({} if uid else {"effective": rights, "permitted": rights}),
    }


def _user(security: Tree, image: Image, pod: str) -> tuple[int, int]:
    """Raises :class:`CannotWorkError` where the kubelet would refuse to start the container."""
    uid, _, gid = (image.settings.get("User") or "0").partition(":")
    found = int(security.get("runAsUser", uid)), int(security.get("runAsGroup", gid or 0))
    if security.get("runAsNonRoot") and found[0] == 0:
        raise CannotWorkError([Blocker(f"pod {pod}", "container has runAsNonRoot and image will run as root", "state runAsUser")])
    return found


def capabilities(stated: Tree) -> list[str]:
    dropped, added = set(stated.get("drop") or ()), set(stated.get("add") or ())
    kept = frozenset[str]() if "ALL" in dropped else DEFAULT_CAPABILITIES - dropped
    return sorted(f"CAP_{name}" for name in kept | added)


def resources(stated: Tree) -> dict[str, Any]:
    """Limits as the kubelet writes them: a quota of 100 ms periods, shares of the request, bytes of memory."""
    limits, requests = stated.get("limits") or {}, stated.get("requests") or {}
    cpu = {"shares": max(2, int(quantity(requests["cpu"]) * 1024))} if "cpu" in requests else {}
    cpu |= {"period": 100_000, "quota": int(quantity(limits["cpu"]) * 100_000)} if "cpu" in limits else {}
    memory = {"limit": int(quantity(limits["memory"]))} if "memory" in limits else {}
    stated_limits = {name: values for name, values in (("cpu", cpu), ("memory", memory)) if values}
    return {"devices": [{"allow": False, "access": "rwm"}], **stated_limits}


def quantity(text: object) -> float:
    """``500m``, ``2Gi``, ``1``. Raises ValueError for anything else."""
    match = re.fullmatch(r"([\d.]+)([a-zA-Z]*)", str(text))
    if match is None or match[2] not in _SUFFIXES:
        raise ValueError(f"{text} is no quantity of Kubernetes")
    return float(match[1]) * _SUFFIXES[match[2]]


def seccomp(path: Path) -> dict[str, Any]:
    """The default profile for a container without capabilities, as the runtime specification writes it."""
    profile = json.loads(path.read_text(encoding="utf-8"))
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    own = f"SCMP_ARCH_{platform.machine().upper()}"
    also = [sub for entry in profile["archMap"] if entry["architecture"] == own for sub in entry["subArchitectures"] or ()]
    return {
        "defaultAction": profile["defaultAction"],
        "architectures": [own, *also],
        "syscalls": [_call(call) for call in profile["syscalls"] if _holds(call, machine)],
    }


def _holds(call: Tree, machine: str) -> bool:
    """A rule may be for some machines, or for containers with a capability; ours have none."""
    includes = call.get("includes") or {}
    return not includes.get("caps") and machine in (includes.get("arches") or [machine])


def _call(call: Tree) -> dict[str, Any]:
    kept = {name: call[name] for name in ("names", "action", "args") if call.get(name)}
    return kept | ({"errnoRet": call["errnoRet"]} if "errnoRet" in call else {})


def _mount(place: str, kind: str, source: str, *options: str) -> dict[str, Any]:
    return {"destination": place, "type": kind, "source": source, "options": list(options)}


def _runtime_mounts() -> Iterator[dict[str, Any]]:
    yield _mount("/proc", "proc", "proc", "nosuid", "noexec", "nodev")
    yield _mount("/dev", "tmpfs", "tmpfs", "nosuid", "strictatime", "mode=755", "size=65536k")
    yield _mount("/dev/pts", "devpts", "devpts", "nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5")
    yield _mount("/dev/mqueue", "mqueue", "mqueue", "nosuid", "noexec", "nodev")
    yield _mount(SHARED_MEMORY, "tmpfs", "shm", "nosuid", "noexec", "nodev", "mode=1777", "size=65536k")
    yield _mount("/sys", "sysfs", "sysfs", "nosuid", "noexec", "nodev", "ro")


def _kubelet_mounts(place: Place) -> Iterator[dict[str, Any]]:
    """Names of hosts, and the file for the last words. ``/etc/resolv.conf`` names no server: there is none."""
    folder = place.home
    for name, text in (("hosts", place.hosts), ("hostname", f"{place.pod.host_name}\n"), ("resolv.conf", "")):
        (folder / name).write_text(text, encoding="utf-8")
        yield _mount(f"/etc/{name}", "bind", str(folder / name), "bind", "ro")
    place.termination_message.touch()
    place.termination_message.chmod(0o666)  # as the kubelet makes it: the container's user writes
    yield _mount(place.played.termination_message_path, "bind", str(place.termination_message), "bind", "rw")


def _volume_mounts(place: Place) -> Iterator[dict[str, Any]]:
    """Parents before what is mounted in them."""
    volumes = place.pod.spec.volumes_by_name
    for mount in sorted(place.played.volume_mounts, key=lambda mount: mount.mount_path):
        volume = volumes[mount.name]
        access = "ro" if mount.read_only else "rw"
        memory = volume.empty_dir is not None and volume.empty_dir.get("medium") == "Memory"
        if memory:
            size = (volume.empty_dir or {}).get("sizeLimit")
            limit = [f"size={int(quantity(size))}"] if size else []
            yield _mount(mount.mount_path, "tmpfs", "tmpfs", "nosuid", "nodev", "mode=1777", *limit)
        else:
            source = _folder(place, volume) / mount.sub_path
            yield _mount(mount.mount_path, "bind", str(source), "rbind", access)


def _folder(place: Place, volume: Volume) -> Path:
    """A folder of this machine, of the pod's group if it names one, as the kubelet makes it."""
    if volume.name in place.images:
        return place.images[volume.name]
    if volume.persistent_volume_claim is not None:
        folder = place.folders.claim(volume.persistent_volume_claim.claim_name)
    elif volume.empty_dir is not None:
        folder = place.folders.scratch(volume.name)
    else:
        files, problems = rendered_files(volume, place.pod, place.objects, f"pod {place.pod.name}")
        if problems or not files:
            unknown = Blocker(f"volume {volume.name}", f"{volume.other_source} is not played here", "choose a run without it")
            raise CannotPlayError(problems or [unknown])
        folder = place.folders.files("pod", volume.name)
        folder.mkdir(parents=True, exist_ok=True)  # one volume may be mounted at several places
        write_files(folder, files)
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    if os.geteuid() == 0:
        os.chown(folder, 0, place.security.get("fsGroup", 0))
    folder.chmod(0o2777 if volume.empty_dir is not None else 0o2775)
    return folder
