"""Folders of this machine in place of what the pods of a manifest have mounted."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

OF_EVERY_MACHINE = ("/tmp", "/dev/shm")


class Volumes:
    """One folder for each path that a container knows, made at once.

    Args:
        folder: Below which they are.
        paths: Mount paths, and folders of the image that are filled here.
    """

    def __init__(self, folder: Path, paths: Iterable[str]) -> None:
        self._folders = {path: folder / path.lstrip("/") for path in paths if path not in OF_EVERY_MACHINE}
        for own in self._folders.values():
            own.mkdir(parents=True, exist_ok=True)

    def at(self, path: str) -> Path:
        """Where a path of the pods is here."""
        return Path(str(self.here(path)))

    def here(self, value: Any) -> Any:
        """A value of JSON in which every string that is a path of the pods is one of this machine."""
        if isinstance(value, dict):
            return {key: self.here(part) for key, part in value.items()}
        if isinstance(value, list):
            return [self.here(part) for part in value]
        if not isinstance(value, str):
            return value
        for mount, folder in self._folders.items():
            if value == mount or value.startswith(f"{mount}/"):
                return str(folder) + value[len(mount):]
        return value
