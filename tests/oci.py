"""OCI archives as buildah writes them, small ones, for tests of what pushes them."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any


def write_archive(path: Path, layer: bytes = b"a layer", damaged: bool = False) -> str:
    """Returns the image's digest."""
    blobs: dict[str, bytes] = {}

    def add(content: bytes, kind: str) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[digest] = content
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(content)}

    manifest = {
        "schemaVersion": 2, "config": add(b'{"architecture": "amd64"}', "config.v1+json"),
        "layers": [add(layer, "layer.v1.tar+gzip")],
    }
    described = add(json.dumps(manifest, indent=1).encode(), "manifest.v1+json")  # not as a library would write it
    if damaged:
        blobs[hashlib.sha256(layer).hexdigest()] += b"!"
    with tarfile.open(path, "w") as file:
        for name, content in {
            "oci-layout": b'{"imageLayoutVersion": "1.0.0"}', "index.json": json.dumps({"manifests": [described]}).encode(),
            **{f"blobs/sha256/{digest}": content for digest, content in blobs.items()},
        }.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            file.addfile(member, io.BytesIO(content))
    return str(described["digest"])
