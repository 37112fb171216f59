"""Arrays as a safetensors file, where there is no torch: streamed out one array at a time, read back as views.

The head of such a file is eight bytes of length, then JSON that says where each tensor lies
(https://github.com/huggingface/safetensors, "Format").
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_NAMES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8",
    "uint8": "U8", "bool": "BOOL",
}
_DTYPES = {name: np.dtype(dtype) for dtype, name in _NAMES.items()}
_ALIGNMENT = 8


@dataclass(frozen=True, slots=True)
class Entry:
    """A tensor to come."""

    dtype: str
    """By the format's name, such as ``F32``."""
    shape: Sequence[int]
    item_bytes: int
    bytes: int


def encode_head(entries: Mapping[str, Entry]) -> tuple[bytes, list[str]]:
    """The head, and the names in the order in which the tensors' bytes must follow it."""
    # Widest items first, so that every tensor is aligned for its own dtype.
    names = sorted(entries, key=lambda name: (-entries[name].item_bytes, name))
    described: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name in names:
        entry = entries[name]
        end = offset + entry.bytes
        described[name] = {"dtype": entry.dtype, "shape": list(entry.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(described, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    return len(text).to_bytes(8, "little") + text, names


def encode(arrays: Mapping[str, Array]) -> Iterator[memoryview]:
    """The file's bytes in pieces. Raises ``ValueError`` for a dtype that numpy or the format does not know."""
    entries = {}
    for name, array in arrays.items():
        if array.dtype.name not in _NAMES:
            raise ValueError(f"{name} has dtype {array.dtype}, which a safetensors file of numpy arrays cannot hold")
        entries[name] = Entry(_NAMES[array.dtype.name], array.shape, array.dtype.itemsize, array.nbytes)
    start, names = encode_head(entries)
    yield memoryview(start)
    for name in names:
        flat = np.ascontiguousarray(arrays[name]).reshape(-1).view(np.uint8)
        yield memoryview(flat)  # type: ignore[arg-type]  # numpy arrays are buffers from Python 3.12 on


def decode(data: bytes) -> dict[str, Array]:
    """All arrays of a file that was verified; they cannot be written to. Raises ``ValueError`` for a dtype that numpy lacks."""
    size = int.from_bytes(data[:8], "little")
    described = json.loads(data[8:8 + size])
    arrays = {}
    for name, entry in described.items():
        if name == "__metadata__":
            continue
        if entry["dtype"] not in _DTYPES:
            raise ValueError(f"{name} has dtype {entry['dtype']}, which numpy does not know")
        begin, end = entry["data_offsets"]
        body = memoryview(data)[8 + size + begin:8 + size + end]
        arrays[name] = np.frombuffer(body, dtype=_DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return arrays
