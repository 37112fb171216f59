"""What a rehearsal is played in: the caller's options, the workspace, and all that a pod needs besides its own index."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from trainwright.rehearsal.dns import Names
from trainwright.rehearsal.kinds import PodSpec
from trainwright.rehearsal.objects import Objects, Specification, UsageError
from trainwright.rehearsal.pod import Pod, create_pod
from trainwright.rehearsal.volumes import VolumeFolders
from trainwright_trainer.contract.layout import CHECKPOINT_ENV


@dataclass(frozen=True, slots=True)
class Options:
    fresh: bool = False
    """Empty the volumes that the pods write to first."""
    nodes: int | None = None
    """At most so many pods; None: two for a run on GPUs, all of them for a run on CPUs."""
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
"""Says that the folder is ours, so that emptying it takes nothing else along."""


class Workspace:
    """``claims/<claim>`` and ``stores/<bucket>`` stay between rehearsals; ``pods/<pod>`` is of the last rehearsal."""

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

        Raises :class:`UsageError` where it cannot be made, is somebody else's, or is in use.
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
        raise UsageError(f"another rehearsal uses {root}: wait for its end, or choose another workspace") from None


@dataclass(frozen=True, slots=True)
class Setting:
    objects: Objects
    specification: Specification | None
    options: Options
    workspace: Workspace
    names: Names

    @property
    def spec(self) -> PodSpec:
        return self.objects.job.pod

    def create_pod(self, index: int) -> Pod:
        return create_pod(self.objects.job, index, self.names.address(index))


_SCHEME = "s3://"


def store_folders(setting: Setting) -> dict[str, Path]:
    """Address of the bucket that checkpoints go to -> folder of the workspace; nothing is made."""
    specification = setting.specification
    directories = [specification.spec.state_directory or ""] if specification else []
    directories += [variable.value for variable in setting.spec.main.env if variable.name == CHECKPOINT_ENV]
    buckets = [each.removeprefix(_SCHEME).partition("/")[0] for each in directories if each.startswith(_SCHEME)]
    return {f"{_SCHEME}{bucket}": setting.workspace.stores / bucket for bucket in buckets}
