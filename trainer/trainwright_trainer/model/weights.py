"""Weights to start from: a directory of safetensors as ``save_pretrained`` writes it, matched to the run's own module."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.core_model_loading import WeightConverter, WeightRenaming, rename_source_key

from trainwright_trainer.contract.failures import InvalidRunError
from trainwright_trainer.model.configuration import changed_function

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
CONFIG_FILE = "config.json"

_FLOATS = ("F64", "F32", "F16", "BF16")
_NAMED = 3
"""Differences that a message spells out."""
_IN_BASE = ("pooler",)
"""Children of a base model that belong to a task, as heads do."""


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


@dataclass(frozen=True, slots=True)
class Origin:
    """What became of a directory of weights. Worth a line in the log."""

    directory: Path
    fresh: tuple[str, ...]
    """Parameters that it did not hold, or held for another number of classes; they start from random values."""
    unused: tuple[str, ...]
    """Its tensors that this model has no place for, such as the head of another task."""

class InitialWeights:
    """A directory's tensors under a model's own names.

    Args:
        directory: As ``save_pretrained`` writes it, of this model with any head or without one.
        module: The model; only names, shapes and the configuration are looked at.

    Raises:
        InvalidRunError: It is another model's. Names the first differences.
    """

    def __init__(self, directory: Path, module: nn.Module) -> None:
        self._files = WeightFiles(directory)
        self._wanted = _wanted(module)
        self._names = _canonical(module)
        self._base = getattr(module, "base_model_prefix", "") if hasattr(module, "base_model") else ""
        self._output = _output_weight(module)
        self._sources: dict[str, Entry] = {}
        unused = []
        for name, entry in self._by_our_names(module):
            if name in self._wanted:
                self._take(name, entry)
            else:
                unused.append(name)
        fresh = self._check(unused, changed_function(self._files.config(), getattr(module, "config", None)))
        self.origin = Origin(directory, tuple(fresh), tuple(unused))

    @property
    def names(self) -> frozenset[str]:
        """Parameters and persistent buffers that :meth:`read` gives."""
        return frozenset(self._sources)

    def read(self, name: str) -> Tensor:
        """A whole tensor on the host, mapped; in the file's dtype."""
        return self._files.read(self._sources[name].name)

    def _by_our_names(self, module: nn.Module) -> list[tuple[str, Entry]]:
        """Names change between releases of ``transformers``, and with the head; it knows how."""
        entries = self._files.entries
        if not isinstance(module, PreTrainedModel):
            return [(self._names.get(name, name), entry) for name, entry in entries.items()]
        transforms = get_model_conversion_mapping(_unsharded(module))
        converters = [each for each in transforms if isinstance(each, WeightConverter)]
        renamings = [each for each in transforms if isinstance(each, WeightRenaming)]
        known: dict[str, Any] = dict.fromkeys(self._names, True)
        renamed = []
        for name, entry in entries.items():
            # A name that is the model's already stays: some of the patterns would match it again.
            ours, converted = (name, None) if name in known else rename_source_key(
                name, renamings, converters, module.base_model_prefix, known
            )
            if converted is not None:
                raise InvalidRunError(
                    f"initial_weights {self._files.directory} is in a layout that this trainer does not convert: {name}; load it "
                    "with transformers, and write it with save_pretrained(save_original_format=False)"
                )
            renamed.append((self._names.get(ours, ours), entry))
        return renamed

    def _take(self, name: str, entry: Entry) -> None:
        if entry.dtype not in _FLOATS and self._wanted[name].is_floating_point():
            raise InvalidRunError(
                f"initial_weights {self._files.directory}: {entry.name} has dtype {entry.dtype}, so the weights are quantized; "
                "training starts from F32, F16 or BF16"
            )
        if name in self._sources and not torch.equal(self.read(name), self._files.read(entry.name)):
            raise InvalidRunError(
                f"initial_weights {self._files.directory}: {self._sources[name].name} and {entry.name} differ, and this run's "
                "model ties them; set model.tie_word_embeddings to false"
            )
        self._sources.setdefault(name, entry)

    def _check(self, unused: list[str], settings: list[str]) -> list[str]:
        """Names of the parameters that start fresh. What ``settings`` differ in is named where shapes tell nothing."""
        fresh, differences = list[str](), [each for each in settings if each.startswith("model_type ")]
        for name, ours in self._wanted.items():
            entry = self._sources.get(name)
            shape, theirs = _shape(ours), None if entry is None else entry.shape
            if theirs == shape or (theirs is None and name.endswith("num_batches_tracked")):
                continue
            if self._may_be_fresh(name, theirs):
                self._sources.pop(name, None)
                fresh.append(name)
            else:
                differences.append(f"{name} is {theirs or 'absent'} there and {shape} in this run")
        repeated = {_without_numbers(name) for name in self._wanted}
        differences += [f"{name} is there and not in this run" for name in unused if _without_numbers(name) in repeated]
        remedy = ""
        if settings and not differences:
            differences, remedy = settings, f"; write the model as {CONFIG_FILE} there has it, or change it there if you mean to"
        if differences:
            more = len(differences) - _NAMED
            named = "; ".join(differences[:_NAMED]) + (f"; and {more} more" if more > 0 else "")
            raise InvalidRunError(f"initial_weights {self._files.directory} is another model than the run's: {named}{remedy}")
        return fresh

    def _may_be_fresh(self, name: str, theirs: tuple[int, ...] | None) -> bool:
        """A task's head may be absent, or be for other classes; the layer that predicts tokens may not."""
        if name == self._output:
            return False
        inside = name.removeprefix(f"{self._base}.") if self._base else name
        return inside.startswith(_IN_BASE) or (inside == name and bool(self._base))


def _shape(tensor: Tensor) -> tuple[int, ...]:
    """Of the whole tensor. DeepSpeed keeps no elements in a parameter that it partitioned, and its shape as ``ds_shape``."""
    return tuple(getattr(tensor, "ds_shape", tensor.shape))


def _wanted(module: nn.Module) -> dict[str, Tensor]:
    """Parameters by their first name, and persistent buffers."""
    parameters = dict(module.named_parameters())
    names = module.state_dict(keep_vars=True).keys()
    buffers = {name: buffer for name, buffer in module.named_buffers() if name in names}
    return {**parameters, **buffers}


def _canonical(module: nn.Module) -> dict[str, str]:
    """Every name of every parameter and buffer -> the first name of the same tensor."""
    first = {parameter: name for name, parameter in module.named_parameters()}
    names = {name: first[parameter] for name, parameter in module.named_parameters(remove_duplicate=False)}
    return names | {name: name for name, _ in module.named_buffers()}


def _output_weight(module: nn.Module) -> str | None:
    """Name of the weights that predict tokens."""
    head = module.get_output_embeddings() if isinstance(module, PreTrainedModel) else None  # type: ignore[no-untyped-call]
    weight = getattr(head, "weight", None)
    return next((name for name, parameter in module.named_parameters() if parameter is weight), None)


def _unsharded(module: PreTrainedModel) -> PreTrainedModel:
    """The same model without what `fully_shard` makes of its class: transformers takes that for code of somebody else's."""
    kind = next(each for each in type(module).__mro__ if each.__module__.startswith("transformers."))
    plain = cast("PreTrainedModel", object.__new__(kind))
    plain.__dict__.update(module.__dict__)
    return plain


def _without_numbers(name: str) -> str:
    return re.sub(r"\.\d+(?=\.|$)", ".N", name)
