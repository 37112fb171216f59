"""Arrays as a safetensors file, where there is no torch: streamed out one array at a time, read back as views."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from trainwright_trainer.safetensors_header import Entry, head

Array = npt.NDArray[Any]

_NAMES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8",
    "uint8": "U8", "bool": "BOOL",
}
_DTYPES = {name: np.dtype(dtype) for dtype, name in _NAMES.items()}


def encode(arrays: Mapping[str, Array]) -> Iterator[memoryview]:
    """The file's bytes in pieces. Raises ``ValueError`` for a dtype that numpy or the format does not know."""
    entries = {}
    for name, array in arrays.items():
        if array.dtype.name not in _NAMES:
            raise ValueError(f"{name} has dtype {array.dtype}, which a safetensors file of numpy arrays cannot hold")
        entries[name] = Entry(_NAMES[array.dtype.name], array.shape, array.dtype.itemsize, array.nbytes)
    start, names = head(entries)
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
