"""Wheels that were built before, each in a folder named by the digest of all that went into it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

VARIABLE = "TRAINWRIGHT_WHEELS"
NOTE = "recipe.json"


def cache_folder() -> Path:
    """``$TRAINWRIGHT_WHEELS``, or ``trainwright/wheels`` in the user's cache."""
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trainwright" / "wheels"


class WheelCache:
    """Folders ``NAME-DIGEST`` with one wheel and a note of what it was made from.

    A folder gets its name when it is complete, so a build that was killed leaves nothing that looks like a wheel.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, name: str, facts: Mapping[str, str]) -> Path | None:
        """The wheel made from exactly these facts, if it is there and still what it was when it was built."""
        entry = self._entry(name, facts)
        try:
            note = json.loads((entry / NOTE).read_text(encoding="utf-8"))
            wheel = entry / str(note["wheel"])
            if note["facts"] == facts and note["sha256"] == _digest(wheel):
                return wheel
        except (OSError, ValueError, KeyError):
            pass
        return None

    def keep(self, name: str, facts: Mapping[str, str], wheel: Path) -> Path:
        """Keep a wheel that was just built and return its place; a wheel of the same facts that is there already is replaced."""
        entry = self._entry(name, facts)
        self._folder.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{entry.name}.", dir=self._folder))
        draft.chmod(0o755)
        shutil.copy2(wheel, draft / wheel.name)
        note = {"wheel": wheel.name, "sha256": _digest(wheel), "facts": dict(facts)}
        (draft / NOTE).write_text(json.dumps(note, indent=1) + "\n", encoding="utf-8")
        shutil.rmtree(entry, ignore_errors=True)
        try:
            draft.rename(entry)
        except OSError:  # somebody else's build of the same facts was quicker
            shutil.rmtree(draft)
        return entry / wheel.name

    def _entry(self, name: str, facts: Mapping[str, str]) -> Path:
        text = json.dumps(facts, sort_keys=True)
        return self._folder / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
