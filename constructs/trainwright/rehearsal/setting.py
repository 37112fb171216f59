"""What a rehearsal is played in: the caller's options, the workspace, and all that a pod needs besides its own index."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import gettempdir
from typing import Literal

from trainwright.rehearsal.networks.dns import ClusterDns
from trainwright.rehearsal.networks.network import Network, NetworkMode
from trainwright.rehearsal.stated.kinds import ClaimVolume, VolumeMount
from trainwright.rehearsal.stated.objects import Objects, Slot, Specification, UsageError
from trainwright.rehearsal.stated.pod import Pod, create_pod
from trainwright.rehearsal.stated.volumes import VolumeFolders
from trainwright_trainer.contract.layout import CHECKPOINT_ENV

FaultKind = Literal["kill", "preempt", "node-lost", "oom", "hang", "partition"]


def own_programs() -> Path:
    """Of this Python's environment."""
    return Path(sys.executable).parent


@dataclass(frozen=True, slots=True)
class Options:
    """What a caller may choose about a rehearsal."""

    fresh: bool = False
    """Empty the volumes that the pods write to first."""
    nodes: int | None = None
    """The most pods of a role to play; None for two of a run on GPUs, and for all of a run on CPUs."""
    steps: int | None = None
    """How long our trainer trains; None for a few steps of a run on GPUs, and for all of a run on CPUs."""
    timeout_seconds: float | None = None
    """End the rehearsal as failed after so long."""
    mounts: Mapping[str, Path] = field(default_factory=dict)
    """Path in the container -> folder on this machine that stands for it, such as what the image holds there."""
    directory: Path | None = None
    """Folder on this machine that stands for the image's working directory, which no manifest states."""
    programs: Path = field(default_factory=own_programs)
    """Where pods look for programs first."""
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    """The caller's own environment: values for Secrets come from it."""
    network: NetworkMode | None = None
    """What pods are connected by; None for networks of their own where this machine lets them be."""
    ready_seconds: float = 120.0
    """How long a readiness or startup probe may take to pass for the first time."""
    faults: tuple[tuple[FaultKind, str], ...] = ()
    """What is done to whom at which step, as ``("kill", "node-1@30")``."""
    chaos: int = 0
    """So many faults more, by chance."""
    seed: int = 0
    corrupt: bool = False
    """Damage the newest checkpoint right before the first fault, or before the first pod where there is none."""
    parted_seconds: float = 30.0
    """How long a pod is cut off by a partition: twice as long as peers of our trainer wait for a sign of life."""
    patience_seconds: float = 120.0
    """A run that does no step for so long after a fault does not recover."""
    pace: float = 0.2
    """How long a controller waits here, of what it waits in the cluster: 2 s in place of the Job controller's 10 s, which it
    doubles for each further failure."""

    @property
    def disturbed(self) -> bool:
        return bool(self.faults or self.chaos or self.corrupt)

    @property
    def undisturbed(self) -> Options:
        """The same without faults."""
        return replace(self, faults=(), chaos=0, corrupt=False, fresh=False)

    def search_path(self, values: Mapping[str, str]) -> str:
        """The container's PATH if its manifest sets one, else the caller's, behind what stands for the image."""
        mounted = [str(folder) for path, folder in self.mounts.items() if path.endswith(("/bin", "/sbin"))]
        return os.pathsep.join([*mounted, str(self.programs), values.get("PATH") or self.environment.get("PATH") or os.defpath])


IMAGE_DIRECTORY = "."
"""How ``--mount`` names the image's working directory."""
MARKER = ".trainwright-rehearsal"
"""Shows that the folder belongs to a rehearsal, so that nothing else is ever removed."""

NO_WORD = re.compile(r"""[\s"'\\$`&;|<>()*?\[\]]""")
"""What a path may not have where it becomes a part of a shell's text, of ssh's settings, or of what mpirun starts."""

_STORE_SCHEME = "s3://"


class Workspace:
    """A folder for a rehearsal: ``claims/<claim>`` and ``stores/<bucket>`` stay, ``pods/<pod>`` is of the last rehearsal."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self._links: list[Path] = []

    @property
    def claims(self) -> Path:
        return self.root / "claims"

    @property
    def stores(self) -> Path:
        return self.root / "stores"

    @property
    def pods(self) -> Path:
        return self.root / "pods"

    @property
    def records(self) -> Path:
        """A file for each address that the cluster's DNS has a record of by now."""
        return self.root / "pods" / ".records"

    @property
    def keys(self) -> Path:
        return self.root / "pods" / ".keys"

    @property
    def supervisor(self) -> Path:
        """What stands for the one that pods bring along: the same for all, so that a launcher's words hold in every pod."""
        return self.root / "pods" / ".supervisor"

    def pod(self, name: str) -> Path:
        return self.pods / name

    def volumes(self, pod: str) -> VolumeFolders:
        return VolumeFolders(claims=self.claims, pod=self.pod(pod))

    def short(self, pod: str) -> Path:
        """A short path to a folder of the pod's, for sockets, until the rehearsal ends: theirs may have 107 characters."""
        folder, link = self.pod(pod) / "short", Path(gettempdir()) / f"trainwright-{secrets.token_hex(4)}"
        folder.mkdir(parents=True, exist_ok=True)
        link.symlink_to(folder)
        self._links.append(link)
        return link

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Make the folder, hold it for one rehearsal, and remove the pods of the one before.

        Raises :class:`UsageError` where it cannot be made, does not belong to a rehearsal, or is in use.
        """
        with ExitStack() as stack:
            try:
                self._prepare(stack)
            except OSError as error:
                raise UsageError(f"cannot use the workspace {self.root}: {error.strerror or error}") from None
            try:
                yield
            finally:
                for link in self._links:
                    link.unlink()

    def _prepare(self, stack: ExitStack) -> None:
        if odd := NO_WORD.search(str(self.root)):
            raise UsageError(f"{self.root} has {odd[0]!r} in it, and paths of pods become parts of commands: name another folder "
                             "with --workspace DIR")
        self.root.mkdir(parents=True, exist_ok=True)
        if not (self.root / MARKER).exists() and any(self.root.iterdir()):
            raise UsageError(f"{self.root} is not a rehearsal's folder, and it is not empty: choose another workspace")
        marker = stack.enter_context((self.root / MARKER).open("w"))
        _lock(marker.fileno(), self.root)
        shutil.rmtree(self.pods, ignore_errors=True)
        self.claims.mkdir(exist_ok=True)
        self.pods.mkdir()
        self.records.mkdir()

    def copy(self, claims: Iterable[str]) -> Path:
        """A workspace inside this one with what these claims and all object stores hold, for the same run undisturbed.

        The others are this one's own.
        """
        other = Workspace(self.root / "undisturbed")
        shutil.rmtree(other.root, ignore_errors=True)
        other.claims.mkdir(parents=True)
        (other.root / MARKER).touch()
        own = set(claims)
        for folder in self.claims.iterdir():
            if folder.name in own:
                shutil.copytree(folder, other.claims / folder.name, symlinks=True)
            else:
                (other.claims / folder.name).symlink_to(folder)
        if self.stores.is_dir():
            shutil.copytree(self.stores, other.stores)
        return other.root

    def empty(self, claims: Iterable[str]) -> None:
        """Remove what these claims, and all object stores, hold."""
        for folder in (*(self.claims / name for name in claims), self.stores):
            shutil.rmtree(folder, ignore_errors=True)


def _lock(descriptor: int, root: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UsageError(f"another rehearsal uses {root}: wait until it ends, or choose another workspace") from None


@dataclass(frozen=True, slots=True)
class Setting:
    """All that a pod of this rehearsal needs besides its own index."""

    objects: Objects
    specification: Specification | None
    options: Options
    workspace: Workspace
    dns: ClusterDns
    network: Network

    @property
    def store_folders(self) -> dict[str, Path]:
        """Address of the bucket that checkpoints go to -> the folder that stands for it. No folder is made."""
        directories = [self.specification.spec.state_directory or ""] if self.specification else []
        directories += [
            variable.value for slot in self.objects.first_of_roles for variable in slot.spec.main.env
            if variable.name == CHECKPOINT_ENV
        ]
        buckets = [each.removeprefix(_STORE_SCHEME).partition("/")[0] for each in directories if each.startswith(_STORE_SCHEME)]
        return {f"{_STORE_SCHEME}{bucket}": self.workspace.stores / bucket for bucket in buckets}

    @property
    def mounted_claims(self) -> list[tuple[VolumeMount, ClaimVolume]]:
        """Of one pod of each role."""
        return [
            pair for slot in self.objects.first_of_roles for container in slot.spec.all_containers
            for pair in slot.spec.mounted_claims(container)
        ]

    @property
    def writable_claims(self) -> list[str]:
        """Claims that some mount may write to."""
        writable = (claim.claim_name for mount, claim in self.mounted_claims if not mount.read_only and not claim.read_only)
        return list(dict.fromkeys(writable))

    def create_pod(self, slot: Slot) -> Pod:
        return create_pod(slot, self.dns.address(slot))
