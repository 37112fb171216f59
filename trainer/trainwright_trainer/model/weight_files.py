"""A directory of safetensors as ``save_pretrained`` writes it: one file, or several with an index. Nothing is unpickled."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from safetensors import SafetensorError, safe_open
from torch import Tensor

from trainwright_trainer.contract.failures import InvalidRunError

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
CONFIG_FILE = "config.json"


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor of the directory, as its file's header has it."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    """In the words of the format: ``F32``, ``BF16``."""


class WeightFiles:
    """The tensors of a directory. Their bytes are mapped, and read where they are used.

    Raises:
        InvalidRunError: The directory holds no such files, or one of them cannot be read. Says which.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._stack = ExitStack()
        self._open: dict[str, Any] = {}
        self.entries: Mapping[str, Entry] = {
            entry.name: entry for file in self._files() for entry in self._header(file)
        }

    def read(self, name: str) -> Tensor:
        """A tensor on the host, in the file's own dtype. Copy it: its bytes are the mapped file's."""
        return cast("Tensor", self._open[name].get_tensor(name))

    def config(self) -> dict[str, Any]:
        """What ``config.json`` says, nothing where there is none."""
        path = self.directory / CONFIG_FILE
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise InvalidRunError(f"initial_weights: {path} cannot be read: {error}") from error
        return content if isinstance(content, dict) else {}

    def _files(self) -> list[Path]:
        index = self.directory / INDEX_FILE
        if (self.directory / SINGLE_FILE).is_file():
            return [self.directory / SINGLE_FILE]
        try:
            names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
        except FileNotFoundError as error:
            raise InvalidRunError(self._nothing_here()) from error
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidRunError(f"initial_weights: {index} is not an index of safetensors: {error!r}") from error
        if outside := [name for name in names if not isinstance(name, str) or Path(name).name != name]:
            raise InvalidRunError(f"initial_weights: {index} names {outside[0]!r}, which is not a file beside it")
        return [self.directory / name for name in names]

    def _nothing_here(self) -> str:
        if not self.directory.is_dir():
            return f"initial_weights {self.directory} is not a directory of this pod; mount it, or correct the path"
        pickled = sorted(path.name for path in self.directory.iterdir() if path.suffix in (".bin", ".pt", ".pth"))
        if pickled:
            return (
                f"initial_weights {self.directory} holds {pickled[0]} and no safetensors; pickled weights are never read: "
                f"convert them with save_pretrained to {SINGLE_FILE}"
            )
        return f"initial_weights {self.directory} holds neither {SINGLE_FILE} nor {INDEX_FILE}"

    def _header(self, path: Path) -> list[Entry]:
        try:
            opened = self._stack.enter_context(safe_open(path, framework="pt"))
            entries = []
            for name in opened.keys():  # noqa: SIM118  not a mapping
                part = opened.get_slice(name)
                entries.append(Entry(name, tuple(part.get_shape()), part.get_dtype()))
                self._open[name] = opened
        except (OSError, SafetensorError) as error:
            raise InvalidRunError(f"initial_weights: {path} cannot be read, it is missing, cut or damaged: {error}") from error
        return entries
