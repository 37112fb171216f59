"""An image in an OCI archive, and its way into a registry: by the registry's own protocol, without a daemon."""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

LOCAL = ("localhost", "127.0.0.1", "[::1]")
"""Registries that speak plain HTTP, as every client of registries takes them."""
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
SECONDS = 20


class ImageError(Exception):
    """One sentence: what is wrong with an archive or a registry, and what to do."""


class Archive(NamedTuple):
    """What ``make image IMAGE_ARGS="--archive FILE"`` writes: the OCI layout of one image, in a tar archive."""

    folder: Path
    manifest: bytes
    """As it is written: its digest is the image's."""

    @property
    def digest(self) -> str:
        return f"sha256:{hashlib.sha256(self.manifest).hexdigest()}"

    @property
    def blobs(self) -> list[Mapping[str, Any]]:
        """Descriptors of what the manifest names: the configuration, and then the layers."""
        manifest = json.loads(self.manifest)
        return [manifest["config"], *manifest["layers"]]

    def blob(self, digest: str) -> Path:
        return self.folder / "blobs" / digest.replace(":", "/")


def read_archive(path: Path, folder: Path) -> Archive:
    """Unpack an archive into an empty folder, and check every digest. Raises :class:`ImageError`."""
    try:
        with tarfile.open(path) as file:
            file.extractall(folder, filter="data")
        index = json.loads((folder / "index.json").read_bytes())
        (entry,) = index["manifests"]
        manifest = (folder / "blobs" / entry["digest"].replace(":", "/")).read_bytes()
        archive = Archive(folder, manifest)
        blobs = [(one["digest"], _digest(archive.blob(one["digest"]))) for one in archive.blobs]
    except FileNotFoundError as error:
        missing = path if not path.exists() else Path(str(error.filename)).relative_to(folder)
        raise ImageError(f"there is no {missing}: `make image FAMILY=supervisor` writes the archive") from None
    except (OSError, tarfile.TarError, ValueError, KeyError, TypeError) as error:
        why = str(error).partition("\n")[0].rstrip(":") or type(error).__name__
        raise ImageError(f"{path} is no OCI archive of one image ({why}): `make image FAMILY=supervisor` writes one") from None
    if any(named != found for named, found in [(entry["digest"], archive.digest), *blobs]):
        raise ImageError(f"{path} is damaged: a file in it has another digest than its name; build it again")
    return archive


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def push(archive: Archive, name: str) -> str:
    """Push what a registry does not have yet; returns the image's name by digest.

    Credentials are those of ``docker login``, ``podman login`` and the like, in ``~/.docker/config.json``. Raises
    :class:`ImageError`, and ``ImportError`` where oras is not installed.
    """
    import oras.container
    import oras.provider
    import requests

    container = oras.container.Container(name)
    plain = container.registry in LOCAL or container.registry.rpartition(":")[0] in LOCAL
    refused = f"log in to {container.registry} first, as `docker login {container.registry}` does"

    def done(response: requests.Response, what: str) -> None:
        if response.status_code in (401, 403):
            raise ImageError(f"{container.registry} does not let you push to {container.api_prefix}: {refused}")
        if response.status_code not in (200, 201, 202):
            said = response.text.strip()[:300] or response.reason
            raise ImageError(f"{container.registry} does not take {what}: {response.status_code}, {said}")

    try:
        # By itself: where nobody answers, oras would try for minutes, and where a password is wanted, it asks for a token.
        asked = requests.get(f"http{'' if plain else 's'}://{container.registry}/v2/", timeout=SECONDS)
        password = asked.headers.get("Www-Authenticate", "").lower().startswith("basic")
        registry = oras.provider.Registry(insecure=plain, auth_backend="basic" if password else "token")
        registry.auth.load_configs(container)
        if password and not getattr(registry.auth, "_basic_auth", None):  # oras would send none
            raise ImageError(f"{container.registry} does not let you push to {container.api_prefix}: {refused}")
        for blob in archive.blobs:
            done(registry.upload_blob(str(archive.blob(blob["digest"])), container, dict(blob)), str(blob["digest"]))
        # By its own bytes: oras would write them anew, and the image would have another digest.
        url = f"{registry.prefix}://{container.manifest_url()}"
        done(registry.do_request(url, "PUT", data=archive.manifest, headers={"Content-Type": MANIFEST}), "the manifest")
    except requests.RequestException as error:
        raise ImageError(f"{container.registry} cannot be reached: {error}") from None
    except ValueError:  # what oras says of a login that it cannot make
        raise ImageError(f"{container.registry} does not let you push to {container.api_prefix}: {refused}") from None
    return f"{container.registry}/{container.api_prefix}@{archive.digest}"
