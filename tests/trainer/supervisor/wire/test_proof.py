"""The proof of a secret, against published figures, and what makes two of them differ."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainwright_trainer.contract import ExitCode
from trainwright_trainer.contract.failures import PodError
from trainwright_trainer.supervisor.wire.proof import Proof, hkdf, read_secret

SECRET = b"0123456789abcdef"


@pytest.mark.parametrize(("secret", "salt", "info", "length", "expected"), [
    (
        b"\x0b" * 22, bytes(range(13)), bytes(range(0xF0, 0xFA)), 42,
        "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865",
    ),
    (
        b"\x0b" * 22, b"", b"", 42,
        "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8",
    ),
], ids=["A.1", "A.3"])
def test_hkdf_as_in_rfc_5869(secret: bytes, salt: bytes, info: bytes, length: int, expected: str) -> None:
    assert hkdf(secret, salt, info, length).hex() == expected


def test_a_proof_is_of_one_secret_run_attempt_side_and_word() -> None:
    proof = Proof(SECRET, "run-1a2b3c", "attempt")
    shown = proof.of("pod", "theirs", "ours", 1)
    assert proof.fits(shown, "pod", "theirs", "ours", 1)
    assert not proof.fits(None, "pod", "theirs", "ours", 1)
    others = (
        Proof(SECRET + b"!", "run-1a2b3c", "attempt").of("pod", "theirs", "ours", 1),
        Proof(SECRET, "run-1a2b3d", "attempt").of("pod", "theirs", "ours", 1),
        Proof(SECRET, "run-1a2b3c", "another").of("pod", "theirs", "ours", 1),
        proof.of("node 0", "theirs", "ours", 1),
        proof.of("pod", "theirs", "ours", 2),
        proof.of("pod", "the", "irsours", 1),
    )
    assert not any(proof.fits(other, "pod", "theirs", "ours", 1) for other in others)


def test_without_a_secret_nothing_is_shown_and_nothing_asked() -> None:
    proof = Proof(None, "run-1a2b3c", "attempt")
    assert proof.of("pod", "nonce") is None
    assert proof.fits(None, "pod", "nonce")


@pytest.mark.parametrize(("content", "sentence"), [
    (None, "cannot read"), (b"", "holds 0 bytes; give the Secret at least 16"), (b"short\n", "holds 5 bytes"),
])
def test_a_secret_that_cannot_be_used(tmp_path: Path, content: bytes | None, sentence: str) -> None:
    path = tmp_path / "control"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(PodError, match=sentence) as caught:
        read_secret(str(path))
    assert caught.value.exit_code is ExitCode.INVALID_SPEC
