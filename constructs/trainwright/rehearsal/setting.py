"""What a rehearsal is played in: the caller's options, the workspace, and all that a pod needs besides its own index."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from trainwright.rehearsal.dns import ClusterDns
from trainwright.rehearsal.kinds import PodSpec
from trainwright.rehearsal.objects import Objects, Specification, UsageError
from trainwright.rehearsal.pod import Pod, create_pod
from trainwright.rehearsal.volumes import VolumeFolders
from trainwright_trainer.contract.layout import CHECKPOINT_ENV


@dataclass(frozen=True, slots=True)
class Options:
    """What a caller may choose about a rehearsal."""

    fresh: bool = False
    """Empty the volumes that the pods write to first."""
    nodes: int | None = None
    """The most pods to play; None for two of a run on GPUs, and for all of a run on CPUs."""
    timeout_seconds: float | None = None
    """End the rehearsal as failed after so long."""
    mounts: Mapping[str, Path] = field(default_factory=dict)
    """Path in the container -> folder on this machine that stands for it, such as what the image holds there."""
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    """The caller's own environment: values for Secrets come from it."""
    first_address: str = "127.0.0.2"
    """Loopback address of pod 0; the others follow."""
    ready_seconds: float = 120.0
    """How long a readiness or startup probe may take to pass for the first time."""
    replace_seconds: float = 2.0
    """Delay before a pod is replaced. The Job controller waits 10 s, and doubles that for each further failure of the index."""


MARKER = ".trainwright-rehearsal"
"""Shows that the folder belongs to a rehearsal, so that nothing else is ever removed."""

_STORE_SCHEME = "s3://"


class Workspace:
    """A folder for a rehearsal: ``claims/<claim>`` and ``stores/<bucket>`` stay, ``pods/<pod>`` is of the last rehearsal."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()

    @property
    def claims(self) -> Path:
        return self.root / "claims"

    @property
    def stores(self) -> Path:
        return self.root / "stores"

    @property
    def pods(self) -> Path:
        return self.root / "pods"

    def pod(self, name: str) -> Path:
        return self.pods / name

    def volumes(self, pod: str) -> VolumeFolders:
        return VolumeFolders(claims=self.claims, pod=self.pod(pod))

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
            yield

    def _prepare(self, stack: ExitStack) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        if not (self.root / MARKER).exists() and any(self.root.iterdir()):
            raise UsageError(f"{self.root} is not a rehearsal's folder, and it is not empty: choose another workspace")
        marker = stack.enter_context((self.root / MARKER).open("w"))
        _lock(marker.fileno(), self.root)
        shutil.rmtree(self.pods, ignore_errors=True)
        self.claims.mkdir(exist_ok=True)
        self.pods.mkdir()

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

    @property
    def pod_spec(self) -> PodSpec:
        return self.objects.job.pod

    @property
    def store_folders(self) -> dict[str, Path]:
        """Address of the bucket that checkpoints go to -> the folder that stands for it. No folder is made."""
        directories = [self.specification.spec.state_directory or ""] if self.specification else []
        directories += [variable.value for variable in self.pod_spec.main.env if variable.name == CHECKPOINT_ENV]
        buckets = [each.removeprefix(_STORE_SCHEME).partition("/")[0] for each in directories if each.startswith(_STORE_SCHEME)]
        return {f"{_STORE_SCHEME}{bucket}": self.workspace.stores / bucket for bucket in buckets}

    @property
    def writable_claims(self) -> list[str]:
        """Claims that some mount may write to."""
        mounted = (pair for container in self.pod_spec.all_containers for pair in self.pod_spec.mounted_claims(container))
        return list(dict.fromkeys(claim.claim_name for mount, claim in mounted if not mount.read_only and not claim.read_only))

    def create_pod(self, index: int) -> Pod:
        return create_pod(self.objects.job, index, self.dns.address(index))
