"""What each engine can do and which settings it reads: what plans refuse by, engines declare, and docs/engines.md shows."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from trainwright_trainer.contract.engine import Engine


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What an engine promises; its conformance suite holds it to this."""

    reshards: bool
    """A checkpoint loads at another number of ranks."""
    sigterm_save: bool
    """A run that is told to end commits every finished step first."""
    saves_in_background: bool
    """Training goes on while a checkpoint is written."""
    skips_without_sync: bool
    """Micro batches before a step's last one send nothing: their gradients stay whole on their rank."""
    every_rank_writes: bool
    """False: rank 0 alone holds and writes all of the state."""


CAPABILITIES: dict[Engine, Capabilities] = {
    "ddp": Capabilities(
        reshards=True, sigterm_save=True, saves_in_background=True, skips_without_sync=True, every_rank_writes=False
    ),
    # Without a sum after each micro batch, gradients would stay whole on every rank: 4 bytes a parameter.
    "fsdp2": Capabilities(
        reshards=True, sigterm_save=True, saves_in_background=True, skips_without_sync=False, every_rank_writes=True
    ),
    # Its files are one process's pickles of its own partition: written by the main thread, and loaded at another number of ranks
    # through a conversion.
    "deepspeed": Capabilities(
        reshards=True, sigterm_save=True, saves_in_background=False, skips_without_sync=False, every_rank_writes=True
    ),
    "horovod": Capabilities(
        reshards=True, sigterm_save=True, saves_in_background=True, skips_without_sync=True, every_rank_writes=False
    ),
    "tensorflow": Capabilities(
        reshards=True, sigterm_save=True, saves_in_background=False, skips_without_sync=False, every_rank_writes=False
    ),
}

_Asked = Callable[[Any], bool]
_SETTINGS: dict[str, _Asked] = {
    "precision fp16": lambda work: work.precision == "fp16",
    "gradient_reduction": lambda work: work.gradient_reduction not in (None, "fp32"),
    "gradient_reduction bf16": lambda work: work.gradient_reduction == "bf16",
    "initial_weights": lambda work: bool(getattr(work, "initial_weights", None)),
    "activation_checkpointing": lambda work: bool(work.activation_checkpointing),
    "compile": lambda work: bool(work.compile),
    "skip_non_finite": lambda work: bool(getattr(work, "skip_non_finite", None)),
    "checkpoints.save background": lambda work: getattr(getattr(work, "checkpoints", None), "save", None) == "background",
}
"""Setting that not every engine reads, or one value of it -> whether a ``Training``, or the compiler's workload, asks for it."""
_BLOCKS = "remove it: a save blocks training here"
_UNREAD: dict[Engine, dict[str, str]] = {
    "ddp": {},
    "fsdp2": {},
    "horovod": {
        # Compression in horovod/torch/compression.py, 0.28.1: none or fp16.
        "gradient_reduction bf16": "set it to fp16 or fp32: Horovod compresses gradients to fp16 only",
    },
    "deepspeed": {
        "skip_non_finite": "remove it: DeepSpeed leaves a step out by itself, for overflows of fp16 only",
        "checkpoints.save background": _BLOCKS,
    },
    "tensorflow": {
        "precision fp16": "set it to bf16: there is no loss scaling here",
        "gradient_reduction": "remove it: gradients are summed in fp32",
        "initial_weights": "remove it, or use a torch engine",
        "activation_checkpointing": "remove it, or use a torch engine",
        "compile": "remove it: TensorFlow compiles every step to a graph by itself",
        "skip_non_finite": "remove it: the first step that is not finite ends the run",
        "checkpoints.save background": _BLOCKS,
    },
}
"""Engine -> what it does not read, and what to write instead."""


def unread(engine: Engine, work: Any) -> Iterator[tuple[str, str]]:
    """Settings that ``work`` asks for and the engine does not read, each with what to write instead."""
    return ((setting, instead) for setting, instead in _UNREAD[engine].items() if _SETTINGS[setting](work))


def reads(engine: Engine, setting: str) -> bool:
    """Whether an engine reads one of :data:`SETTINGS`. Who does not read a setting does not read a value of it."""
    return _UNREAD[engine].keys().isdisjoint({setting, setting.partition(" ")[0]})


SETTINGS = tuple(_SETTINGS)
