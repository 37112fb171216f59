"""How two ends of a connection show each other that they know the run's secret, without saying it.

Each sends a nonce, and answers with an HMAC (RFC 2104) over both of them and over who it is. Its key follows by HKDF (RFC 5869)
from the secret, the run's identity and the attempt: what was heard in one attempt opens no other. What follows on the connection
is neither encrypted nor signed.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from pathlib import Path
from typing import Literal

from trainwright_trainer.contract.exit_codes import ExitCode
from trainwright_trainer.contract.failures import PodError

LEAST_BYTES = 16
"""What is shorter can be guessed."""
SALT = b"trainwright control channel 1"
Side = Literal["node 0", "pod"]
"""Who proves: the proof of one side, sent back, proves nothing for the other."""


def read_secret(path: str | None) -> bytes | None:
    """The secret that the specification names; None where it names none.

    Raises :class:`PodError` with INVALID_SPEC where the file cannot be read, or holds too little.
    """
    if path is None:
        return None
    try:
        secret = Path(path).read_bytes().strip()
    except OSError as error:
        raise _unusable(f"cannot read {path}: {error.strerror}; mount the Secret there that world.control_secret names") from None
    if len(secret) < LEAST_BYTES:
        raise _unusable(f"{path} holds {len(secret)} bytes; give the Secret at least {LEAST_BYTES}, made at random")
    return secret


def _unusable(message: str) -> PodError:
    return PodError(ExitCode.INVALID_SPEC, "NoSecret", message)


def new_nonce() -> str:
    return secrets.token_hex(16)


def hkdf(secret: bytes, salt: bytes, info: bytes, length: int = 32) -> bytes:
    """HKDF with SHA-256: extract (RFC 5869, 2.2), then expand (2.3)."""
    extracted = hmac.digest(salt, secret, hashlib.sha256)
    block, found = b"", b""
    for number in range(1, -(-length // hashlib.sha256().digest_size) + 1):
        block = hmac.digest(extracted, block + info + bytes([number]), hashlib.sha256)
        found += block
    return found[:length]


class Proof:
    """Proofs of one attempt. Without a secret there are none: every end then takes the other at its word."""

    def __init__(self, secret: bytes | None, identity: str, attempt: str) -> None:
        self._key = None if secret is None else hkdf(secret, SALT, _bytes(identity, attempt))

    def of(self, side: Side, *said: str | int) -> str | None:
        """What ``side`` shows for what was said, both nonces among it; None without a secret."""
        return None if self._key is None else hmac.new(self._key, _bytes(side, *said), hashlib.sha256).hexdigest()

    def fits(self, shown: str | None, side: Side, *said: str | int) -> bool:
        """Whether the other end has shown what it must. Compares in constant time."""
        expected = self.of(side, *said)
        return expected is None or hmac.compare_digest(expected.encode(), (shown or "").encode())


def _bytes(*words: str | int) -> bytes:
    """In a form in which no two lists of words are the same."""
    return json.dumps(words).encode()
