"""Workspace of a rehearsal: a folder that holds its claims, and the logs and files of its last pods."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from trainwright.rehearsal.problem import UsageError
from trainwright.rehearsal.volumes import VolumeFolders

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
