"""Fetches the operators' CustomResourceDefinitions by the addresses and digests of ``pins.toml``.

A file that is there with the right digest stays; a file with another digest, here or from the network, is never used.
"""

from __future__ import annotations

import hashlib
import http.client
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

PINS = Path(__file__).with_name("pins.toml")
TIMEOUT = 30
"""Seconds without an answer."""
LARGEST = 16 * 2**20
"""Bytes of one file."""


@dataclass(frozen=True)
class Pin:
    file: str
    url: str
    sha256: str
    release: str = ""
    """Repository and version that the file is from; only :mod:`trainwright.validate.field_names` asks."""


class FetchError(Exception):
    """A file that cannot be had."""


class UnreachableError(FetchError):
    """A server that cannot be reached; the next file would wait as long for it."""


@dataclass(frozen=True)
class Fetched:
    """What is in the folder now."""

    there: int
    new: int
    """Of those that are there."""
    failures: tuple[str, ...]


def fetch_all(pins: Iterable[Pin], folder: Path) -> Fetched:
    """Have every file of the pins in the folder; one that fails does not stop the others, a server that is silent does.

    Raises:
        OSError: the folder cannot be written to.
    """
    failures: list[str] = []
    new = there = 0
    for pin in pins:
        try:
            new += fetch(pin, folder)
            there += 1
        except FetchError as error:
            failures.append(str(error))
            if isinstance(error, UnreachableError):
                break
    return Fetched(there, new, tuple(failures))


def read_pins(path: Path) -> list[Pin]:
    """The pins of a file.

    Raises:
        FetchError: they cannot be used; a path that would leave the folder, or another protocol, is an error in them.
        OSError: the file cannot be read.
    """
    try:
        pins = [Pin(**entry) for entry in tomllib.loads(path.read_text(encoding="utf-8"))["crd"]]
    except (KeyError, TypeError, ValueError) as error:
        raise FetchError(f"{path} does not hold [[crd]] tables with file, url and sha256: {error}") from error
    for pin in pins:
        if Path(pin.file).is_absolute() or ".." in Path(pin.file).parts or not pin.url.startswith(("https://", "http://")):
            raise FetchError(f"{path}: {pin.file} or {pin.url} cannot be used")
    return pins


def fetch(pin: Pin, folder: Path) -> bool:
    """Have one file in the folder; False where it is there already.

    Raises:
        FetchError: it is not there, or is another file than the one that was pinned.
        UnreachableError: the server does not answer.
    """
    path = folder / pin.file
    if path.is_file() and digest(path.read_bytes()) == pin.sha256:
        return False
    try:
        with urllib.request.urlopen(pin.url, timeout=TIMEOUT) as answer:  # noqa: S310 - the protocol is checked in read_pins
            content: bytes = answer.read(LARGEST + 1)
    except urllib.error.HTTPError as error:
        raise FetchError(f"{pin.url}: {error.code} {error.reason}") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise UnreachableError(f"{pin.url}: {getattr(error, 'reason', error)}") from error
    if digest(content) != pin.sha256:
        raise FetchError(f"{pin.url}: the digest is {digest(content)}, and {pin.sha256} is pinned")
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.partial")
    partial.write_bytes(content)
    partial.replace(path)
    return True


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
