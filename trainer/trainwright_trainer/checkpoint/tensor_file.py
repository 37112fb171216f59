"""Tensors as a safetensors file: streamed out one tensor at a time, read back by the library.

The library writes to a path or into one buffer. A checkpoint is hashed while it is written and may be larger than the host's
spare memory, so the writing half is here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from trainwright_trainer.checkpoint.array_file import Entry, encode_head

_DTYPES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
    torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
}


def encode(tensors: Mapping[str, Tensor]) -> Iterator[memoryview]:
    """The file's bytes in pieces; one tensor at a time is copied to the host.

    Raises ``ValueError`` for a dtype that the format does not know.
    """
    entries = {}
    for name, tensor in tensors.items():
        if tensor.dtype not in _DTYPES:
            raise ValueError(f"{name} has dtype {tensor.dtype}, which a safetensors file cannot hold")
        item = tensor.element_size()
        entries[name] = Entry(_DTYPES[tensor.dtype], tensor.shape, item, tensor.numel() * item)
    start, names = encode_head(entries)
    yield memoryview(start)
    for name in names:
        flat = tensors[name].detach().cpu().contiguous().reshape(-1)
        yield memoryview(flat.view(torch.uint8).numpy())  # type: ignore[arg-type]  # numpy arrays are buffers from Python 3.12 on


def decode(path: Path) -> dict[str, Tensor]:
    """All tensors of a file, on the host.

    Copies: what the library gives is the mapped file, which an optimizer on a CPU would go on using after the file was removed.
    """
    return {name: tensor.clone() for name, tensor in load_file(path).items()}
