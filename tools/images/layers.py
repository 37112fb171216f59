"""How large the layers of an image are, and what makes them so: ``python -m tools.images.layers IMAGE`` prints two tables.

Sizes are of the image as a registry would hold it: each layer as it is stored and pulled (gzip), and unpacked.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

STORE = ("buildah", "push", "--quiet")
LEAST = 100_000
"""Smaller layers, in bytes, are not listed."""
LARGEST = 12
_PACKAGES = re.compile(r"(?:.*/)?(?:site|dist)-packages/(?P<package>[^/]+)")
_DIGEST = re.compile(r"\b(dir|file):[0-9a-f]+")
_PREFIX = re.compile(r"^(\|\d+ .*?)?/bin/sh -c (#\(nop\) )?")


@dataclass(slots=True)
class Layer:
    made_by: str
    pulled: int
    """Bytes, compressed."""
    unpacked: int = 0
    parts: Counter[str] = field(default_factory=Counter)
    """Folder of the system or Python package -> bytes."""


def main(images: Sequence[str]) -> None:
    for image in images:
        with tempfile.TemporaryDirectory(prefix="trainwright-layers-") as folder:
            subprocess.run([*STORE, image, f"oci:{folder}:latest"], check=True)
            layers = read_layers(Path(folder))
        print(f"{image}\n")
        print("\n".join(layer_table(layers)), "\n")
        print("\n".join(part_table(layers)), "\n")


def read_layers(folder: Path) -> list[Layer]:
    """Of the one image in a folder of the OCI image layout."""
    [entry] = json.loads((folder / "index.json").read_text(encoding="utf-8"))["manifests"]
    manifest = _blob(folder, entry["digest"])
    steps = [step.get("created_by", "") for step in _blob(folder, manifest["config"]["digest"])["history"]]
    empty = [bool(step.get("empty_layer")) for step in _blob(folder, manifest["config"]["digest"])["history"]]
    filled = [words for words, is_empty in zip(steps, empty, strict=True) if not is_empty]
    layers = [Layer(made_by(words), entry["size"]) for words, entry in zip(filled, manifest["layers"], strict=True)]
    for layer, entry in zip(layers, manifest["layers"], strict=True):
        with tarfile.open(_path(folder, entry["digest"]), mode="r|*") as archive:
            for member in archive:
                layer.unpacked += member.size
                layer.parts[part(member.name)] += member.size
    return layers


def made_by(words: str) -> str:
    """The instruction of the Dockerfile, or of whatever made the base."""
    return _DIGEST.sub(r"\1", _PREFIX.sub("", words)).strip()


def part(name: str) -> str:
    """The Python package that a file is of, else the folder that it is in."""
    package = _PACKAGES.match(name)
    if package is not None:
        return package["package"].partition(".")[0]
    return "/" + "/".join(name.removeprefix("./").split("/")[:2])


def _path(folder: Path, digest: str) -> Path:
    return folder / "blobs" / digest.replace(":", "/")


def _blob(folder: Path, digest: str) -> Any:
    return json.loads(_path(folder, digest).read_text(encoding="utf-8"))


def layer_table(layers: Iterable[Layer]) -> list[str]:
    kept = [layer for layer in layers if layer.unpacked >= LEAST]
    rows = [f"| `{' '.join(layer.made_by.split())[:60]}` | {_mb(layer.unpacked)} | {_mb(layer.pulled)} |" for layer in kept]
    total = f"| all | {_mb(sum(layer.unpacked for layer in kept))} | {_mb(sum(layer.pulled for layer in kept))} |"
    return ["| layer | MB unpacked | MB pulled |", "|---|---:|---:|", *rows, total]


def part_table(layers: Iterable[Layer]) -> list[str]:
    parts = sum((layer.parts for layer in layers), Counter[str]())
    rows = [f"| `{name}` | {_mb(size)} |" for name, size in parts.most_common(LARGEST)]
    return ["| largest parts | MB unpacked |", "|---|---:|", *rows]


def _mb(size: int) -> str:
    return f"{size / 1e6:,.0f}"


if __name__ == "__main__":
    main(sys.argv[1:])
