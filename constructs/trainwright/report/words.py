"""What people call a fact: the words that the comments at the top of a file and a review have in common."""

from __future__ import annotations

import re
from collections.abc import Mapping

from trainwright.model import Fact

_NAMES = {
    "gpu": "GPU",
    "gpus": "GPUs",
    "gpus_per_node": "GPUs per node",
    "gpu_hours": "GPU-hours",
    "tokens_a_step": "tokens a step",
    "cpu": "CPUs per pod",
    "memory": "memory per pod",
    "shared_memory": "shared memory per pod",
    "target": "made as",
    "trainer_version": "trainer",
    "grace_seconds": "grace period in seconds",
    "checkpoints.by": "saved by",
    "checkpoints.lineage": "checkpoint lineage",
    "checkpoints.claim": "checkpoint claim",
    "checkpoints.every": "checkpoint every",
    "checkpoints.keep": "checkpoints kept",
    "queue": "queue",
    "gang": "started as one by",
    "gang.minimum": "pods that start as one",
}
"""Keys whose words are not those of the key."""

_PLAIN = re.compile(r"[a-z0-9_.]+")
"""Keys of ours; others end in a label, a path or a variable, which stays as it is written."""


def label(key: str) -> str:
    """``learning_rate.warmup_steps`` -> ``learning rate warmup steps``."""
    if key in _NAMES:
        return _NAMES[key]
    return key.translate(str.maketrans("._", "  ")) if _PLAIN.fullmatch(key) else key.replace(".", " ", 1)


def shown(value: Fact) -> str:
    """A fact's value as people write it."""
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def told(facts: Mapping[str, Fact]) -> dict[str, Fact]:
    """Facts without those that say another one's words again: the base of a rate that nothing scales."""
    doubled = facts.get("learning_rate") == facts.get("learning_rate.base")
    return {key: value for key, value in facts.items() if not (doubled and key == "learning_rate.base")}
