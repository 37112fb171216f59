"""The head of a safetensors file: eight bytes of length, then JSON that says where each tensor lies.

https://github.com/huggingface/safetensors, "Format".
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_ALIGNMENT = 8


@dataclass(frozen=True, slots=True)
class Entry:
    """A tensor to come."""

    dtype: str
    """By the format's name, such as ``F32``."""
    shape: Sequence[int]
    item_bytes: int
    bytes: int


def head(entries: Mapping[str, Entry]) -> tuple[bytes, list[str]]:
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
