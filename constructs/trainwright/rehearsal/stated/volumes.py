"""Volumes of a pod as folders of this machine, and the rewriting of mount paths."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from trainwright.command.references import expand
from trainwright.rehearsal.stated.environment import STAND_IN
from trainwright.rehearsal.stated.kinds import (
    ConfigMapVolume,
    Container,
    DownwardVolume,
    PodSpec,
    Projection,
    SecretVolume,
    Volume,
    VolumeMount,
)
from trainwright.rehearsal.stated.objects import Blocker, Objects
from trainwright.rehearsal.stated.pod import Pod
from trainwright.validate.starting import DEFAULT_MODE

SHARED_MEMORY = "/dev/shm"  # noqa: S108 - path inside the container
"""Stays this machine's own: programs reach it through shm_open, which no rewriting of paths can redirect."""

class MountedFile(NamedTuple):
    """A file in a rendered volume."""

    text: str
    mode: int | None = None
    """Permissions, before the mount takes the right to write; None where nobody states any."""


Files = dict[str, MountedFile]
"""Path inside a volume -> text."""
Rewrite = Callable[[str], str]

_BEFORE = r"(?:(?<![\w./\-~+@%])|(?<=file://))"
_AFTER = r"(?![\w.\-~+@%])"


@dataclass(frozen=True, slots=True)
class VolumeFolders:
    """Where the volumes of one pod lie."""

    claims: Path
    """One folder for each claim, kept between rehearsals and shared by all pods."""
    pod: Path
    """The pod's own."""

    @property
    def copies(self) -> Path:
        """Of rendered files that all pods have alike."""
        return self.pod.parent / ".files"

    def claim(self, name: str) -> Path:
        return self.claims / name

    def scratch(self, volume: str) -> Path:
        return self.pod / "volumes" / volume

    def files(self, container: str, volume: str) -> Path:
        """Rendered files differ by container, because paths in them are rewritten for the mounts of each."""
        return self.pod / "files" / container / volume


def check_volumes(spec: PodSpec, pod: Pod, objects: Objects, where: str) -> Iterator[Blocker]:
    """What would keep the kubelet from starting the pod: missing ConfigMaps and keys, mounts of volumes that are not there."""
    volumes = spec.volumes_by_name
    for volume in spec.volumes:
        yield from rendered_files(volume, pod, objects, where)[1]
    for container in spec.all_containers:
        for mount in container.volume_mounts:
            if mount.name not in volumes:
                place = f"{where}, container {container.name}, mount {mount.mount_path}"
                yield Blocker(place, f"the pod has no volume {mount.name}", f"its volumes are {', '.join(volumes) or 'none'}")


def rendered_files(volume: Volume, pod: Pod, objects: Objects, where: str) -> tuple[Files, list[Blocker]]:
    """Files of a configMap, secret, downwardAPI or projected volume, and what is missing for them; nothing for other volumes."""
    files, problems = Files(), list[Blocker]()
    place = f"{where}, volume {volume.name}"
    sources: list[Volume | Projection] = [volume, *(volume.projected.sources if volume.projected else ())]
    for source in sources:
        if source.config_map is not None:
            _add_config_map(files, problems, source.config_map, objects, place)
        if source.secret is not None:
            _add_secret(files, problems, source.secret, objects, place)
        if source.downward_api is not None:
            _add_fields(files, source.downward_api, pod)
        if isinstance(source, Projection) and source.service_account_token is not None:
            files[source.service_account_token.path] = MountedFile(STAND_IN)
    mode = volume.filled.default_mode if volume.filled else None
    return {path: file if file.mode is not None else file._replace(mode=mode) for path, file in files.items()}, problems


def _add_config_map(files: Files, problems: list[Blocker], source: ConfigMapVolume, objects: Objects, where: str) -> None:
    config_map = objects.config_maps.get(source.name)
    if config_map is not None:
        _add_keys(files, problems, source, config_map.data, "configmap", where)
    elif not source.optional:
        problems.append(Blocker(
            where, f'MountVolume.SetUp failed: configmap "{source.name}" not found',
            f"add it beside the run, which has {', '.join(objects.config_maps) or 'no ConfigMap'}",
        ))


def _add_secret(files: Files, problems: list[Blocker], source: SecretVolume, objects: Objects, where: str) -> None:
    """A Secret that is not here has the keys that the volume names, and a stand-in for each."""
    secret = objects.secrets.get(source.name)
    if secret is not None:
        _add_keys(files, problems, source, secret.values, "secret", where)
    elif not source.optional:
        files |= {item.path: MountedFile(STAND_IN, item.mode) for item in source.items or ()}


def _add_keys(
    files: Files, problems: list[Blocker], source: ConfigMapVolume, values: Mapping[str, str], kind: str, where: str
) -> None:
    if source.items is None:
        files |= {key: MountedFile(text) for key, text in values.items()}
        return
    for item in source.items:
        if item.key in values:
            files[item.path] = MountedFile(values[item.key], item.mode)
        elif not source.optional:
            key = "config key" if kind == "configmap" else "secret key"
            message = f"MountVolume.SetUp failed: {kind} references non-existent {key}: {item.key}"
            problems.append(Blocker(where, message, f"its keys are {', '.join(values) or 'none'}"))


def _add_fields(files: Files, source: DownwardVolume, pod: Pod) -> None:
    for item in source.items:
        files[item.path] = MountedFile((item.field_ref and pod.field(item.field_ref.field_path)) or "", item.mode)


def mounted_folders(
    spec: PodSpec, container: Container, values: Mapping[str, str], folders: VolumeFolders
) -> dict[str, Path]:
    """Mount path -> path on this machine. Folders of claims and scratch are made; files are written by :func:`write_files`."""
    volumes = spec.volumes_by_name
    mounted = {}
    for mount in container.volume_mounts:
        path = _clean(mount.mount_path)
        if path != SHARED_MEMORY:
            mounted[path] = _folder(volumes[mount.name], mount, container, values, folders)
    return mounted


def claim_folders(spec: PodSpec, container: Container, claims: Path) -> dict[str, Path]:
    """Mount path -> folder, of claims only. No folder is made."""
    return {
        _clean(mount.mount_path): claims / claim.claim_name / mount.sub_path for mount, claim in spec.mounted_claims(container)
    }


def _folder(volume: Volume, mount: VolumeMount, container: Container, values: Mapping[str, str], folders: VolumeFolders) -> Path:
    sub_path = expand(mount.sub_path_expr, values) if mount.sub_path_expr else mount.sub_path
    claim = volume.persistent_volume_claim
    if volume.empty_dir is not None or claim is not None or volume.other_source:
        folder = (folders.scratch(volume.name) if claim is None else folders.claim(claim.claim_name)) / sub_path
        folder.mkdir(parents=True, exist_ok=True)
        return folder
    folder = folders.files(container.name, volume.name)
    folder.mkdir(parents=True, exist_ok=True)
    return folder / sub_path


def write_files(folder: Path, files: Files) -> None:
    """Write rendered files, read-only as the kubelet mounts them."""
    for name, (text, mode) in files.items():
        path = folder / PurePosixPath(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod((DEFAULT_MODE if mode is None else mode) & 0o555)


def alike_in_all_pods(files: Files, own: Path, copies: Path) -> tuple[Files, Path | None]:
    """Files of the volume at ``own`` that name each other by a copy, which lies at one path for all pods; and that path.

    Ranks compare what they are told, and by the path of one pod's folder it would differ.
    """
    alike = {path: file._replace(text=file.text.replace(str(own), "")) for path, file in files.items()}
    if alike == files:
        return files, None
    copy = copies / hashlib.sha256(repr(sorted(alike.items())).encode()).hexdigest()[:12]
    files = {path: file._replace(text=file.text.replace(str(own), str(copy))) for path, file in files.items()}
    if not copy.is_dir():
        write_files(copy, files)
    return files, copy


def _clean(path: str) -> str:
    return str(PurePosixPath(path))


class PathRewriter:
    """Replaces mount paths in text, where they are whole path tokens: ``/data`` in ``--from=/data/x``, not in ``/mnt/data``.

    Local processes see this machine's files, so what a container would find through a mount is replaced in its command,
    arguments, environment and mounted files.
    """

    def __init__(self, folders: Mapping[str, Path]) -> None:
        self._folders = {path: str(folder) for path, folder in folders.items()}
        longest_first = sorted(self._folders, key=len, reverse=True)
        self._paths = re.compile(f"{_BEFORE}({'|'.join(map(re.escape, longest_first))}){_AFTER}") if longest_first else None

    def __call__(self, text: str) -> str:
        return text if self._paths is None else self._paths.sub(lambda match: self._folders[match[1]], text)
