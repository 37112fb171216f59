"""The engines that train: what each is told, what it can do, and which settings it reads.

Plans refuse by these tables, engines declare themselves by them, and docs/engines.md shows them.
"""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import Field

from trainwright_trainer.contract.base import AbsolutePath, Contract, Specified
from trainwright_trainer.contract.model import Model

EngineName = Literal["ddp", "fsdp2", "deepspeed", "horovod", "tensorflow"]
RendezvousKind = Literal["static", "c10d", "mpi-hostfile", "tf-config", "dmlc-tracker", "ray-head"]

ENGINE_RENDEZVOUS: dict[EngineName, tuple[RendezvousKind, ...]] = {
    "ddp": ("static", "c10d", "mpi-hostfile", "ray-head"),
    "fsdp2": ("static", "c10d", "mpi-hostfile", "ray-head"),
    # Its checkpoints are sharded for one number of ranks, so no node may come or go.
    "deepspeed": ("static", "mpi-hostfile", "ray-head"),
    "horovod": ("mpi-hostfile",),
    "tensorflow": ("tf-config",),
}
"""Engine -> how its ranks may find each other."""

class DDPSettings(Specified):
    """Settings of torch's ``DistributedDataParallel``."""

    bucket_cap_mb: Annotated[int, Field(ge=1, le=65_536)] | None = None
    """Size of the buckets in which gradients are summed, in MiB: larger ones make fewer messages, smaller ones leave earlier in
    the backward pass. Default: torch's 25, and 1 for the first."""


class DeepSpeed(Contract):
    """Settings of engine ``deepspeed``."""

    config: AbsolutePath
    """DeepSpeed's own configuration, which also says the stage of ZeRO: ``ds_config.json`` beside the specification."""


class FSDP2Settings(Contract):
    """Settings of torch's ``fully_shard``."""

    reshard_after_forward: bool = True
    """Free gathered weights after the forward pass; false keeps them for the backward pass: more memory, less traffic."""
    shard_degree: Annotated[int, Field(ge=2, le=65_536)] | None = None
    """Ranks that share one copy of the model states; groups of so many replicate each other (HSDP). The GPUs of a node keep the
    weights' traffic inside it. If left out, all ranks share one copy."""


class FSDP2(FSDP2Settings, Specified):
    """Settings of engine ``fsdp2``: torch's ``fully_shard`` on every block of the model."""

    before: ClassVar = {"shard_degree": ("offload_weights",)}
    always: ClassVar = frozenset(("reshard_after_forward", "offload_weights"))

    offload_weights: bool = False
    """Keep the shards of weights, gradients and optimizer state in the host's memory (``CPUOffloadPolicy``)."""


def torn_groups(degree: int, nodes: int, ranks_per_node: int, *, nodes_move: bool) -> str:
    """Why groups of ``degree`` ranks are not whole at every number of nodes that a run may have; empty where they are."""
    if nodes_move and ranks_per_node % degree:
        return (
            f"fsdp2.shard_degree {degree} does not divide the {ranks_per_node} ranks of a node, and elastic lets nodes come and "
            "go, so a group would be torn; write a divisor of it, or remove shard_degree"
        )
    if not nodes_move and (ranks := nodes * ranks_per_node) % degree:
        return (
            f"fsdp2.shard_degree {degree} does not divide the {ranks} ranks of {nodes} x {ranks_per_node}, so a group would not "
            f"be whole; write a divisor of {ranks}, or remove shard_degree"
        )
    return ""


class Capabilities(NamedTuple):
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


CAPABILITIES: dict[EngineName, Capabilities] = {
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

SaveMode = Literal["background", "blocking"] | None


def background_save(engine: EngineName | None, save: SaveMode) -> bool:
    """Whether training goes on while a periodic checkpoint is written, as a run's ``checkpoints.save`` leaves it; never without
    an engine of ours."""
    return engine is not None and CAPABILITIES[engine].saves_in_background and save != "blocking"


_BLOCKS = "remove it: a save blocks training here"
_UNREAD: dict[EngineName, dict[str, str]] = {
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
        "deterministic": "remove it, or use a torch engine",
        "cudnn_benchmark": "remove it: TensorFlow times convolutions by itself",
        "expandable_segments": "remove it: TensorFlow allocates memory in its own way",
        "skip_non_finite": "remove it: the first step that is not finite ends the run",
        "metrics tensorboard": "remove it, or use wandb: event files are written by torch",
        "checkpoints.save background": _BLOCKS,
    },
}
"""Engine -> setting, or one value of it, that it does not read, and what to write instead."""
SETTINGS = tuple(dict.fromkeys(setting for of_engine in reversed(_UNREAD.values()) for setting in of_engine))
"""What not every engine reads."""


def unread(engine: EngineName, work: Any) -> Iterator[tuple[str, str]]:
    """What a ``Training``, or the compiler's workload, asks for and the engine does not read, and what to write instead."""
    return ((setting, instead) for setting, instead in _UNREAD[engine].items() if _asks(work, setting))


def _asks(work: Any, setting: str) -> bool:
    name, _, value = setting.partition(" ")
    found = work
    for key in name.split("."):
        found = getattr(found, key, None)
    if isinstance(found, tuple):
        return value in [each.to for each in found]
    return found == value if value else found not in (None, False, "fp32")  # every engine can sum in fp32


def reads(engine: EngineName, setting: str) -> bool:
    """Whether an engine reads one of :data:`SETTINGS`. Who does not read a setting does not read a value of it."""
    return _UNREAD[engine].keys().isdisjoint({setting, setting.partition(" ")[0]})


_KERAS_ARCHITECTURES = ("resnet", "vit")


def cannot_build(engine: EngineName, model: Model) -> str:
    """Why an engine has no such model, and what to use instead; empty where it has one."""
    if engine != "tensorflow" or model.architecture in _KERAS_ARCHITECTURES:
        return ""
    return f"engine tensorflow cannot build architecture {model.architecture}; use resnet or vit, or a torch engine"
