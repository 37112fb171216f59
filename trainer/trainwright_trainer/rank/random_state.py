"""Random number generators of a rank: seeded apart, saved and restored exactly."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor

_CPU, _CUDA = "cpu", "cuda"


def seed_for(seed: int, purpose: str) -> int:
    """A seed of its own for each purpose of a run, such as ``rank 3``."""
    digest = hashlib.sha256(f"trainwright seed v1:{seed}:{purpose}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def seed_all(seed: int, purpose: str) -> None:
    """Seed torch's generators from the run's seed and a purpose."""
    torch.manual_seed(seed_for(seed, purpose))


def capture(device: torch.device) -> dict[str, Tensor]:
    """States of the generators that training draws from, as uint8 tensors."""
    states = {_CPU: torch.get_rng_state()}
    if device.type == "cuda":
        states[_CUDA] = torch.cuda.get_rng_state(device)
    return states


def restore(states: dict[str, Tensor], device: torch.device) -> None:
    """Go on where :func:`capture` was called."""
    torch.set_rng_state(states[_CPU])
    if device.type == "cuda" and _CUDA in states:
        torch.cuda.set_rng_state(states[_CUDA], device)
