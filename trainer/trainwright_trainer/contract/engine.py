"""The engines that train, what each is told, and what each can be asked."""

from typing import Literal

from trainwright_trainer.contract.base import AbsolutePath, Contract
from trainwright_trainer.contract.model import Model

Engine = Literal["ddp", "fsdp2", "deepspeed", "horovod", "tensorflow"]
RendezvousKind = Literal["static", "c10d", "mpi-hostfile", "tf-config", "dmlc-tracker", "ray-head"]

ENGINE_RENDEZVOUS: dict[Engine, tuple[RendezvousKind, ...]] = {
    "ddp": ("static", "c10d", "mpi-hostfile", "ray-head"),
    "fsdp2": ("static", "c10d", "mpi-hostfile", "ray-head"),
    # Its checkpoints are sharded for one number of ranks, so no node may come or go.
    "deepspeed": ("static", "mpi-hostfile", "ray-head"),
    "horovod": ("mpi-hostfile",),
    "tensorflow": ("tf-config",),
}
"""Engine -> how its ranks may find each other."""

_KERAS_ARCHITECTURES = ("resnet", "vit")


class DeepSpeed(Contract):
    """Settings of engine ``deepspeed``."""

    config: AbsolutePath
    """DeepSpeed's own configuration, which also says the stage of ZeRO: ``ds_config.json`` beside the specification."""


class FSDP2(Contract):
    """Settings of engine ``fsdp2``: torch's ``fully_shard`` on every block of the model."""

    reshard_after_forward: bool = True
    """Free gathered weights after the forward pass and gather them again for the backward pass; false keeps them till then."""
    offload_weights: bool = False
    """Keep the shards of weights, gradients and optimizer state in the host's memory (``CPUOffloadPolicy``)."""


def engine_disagreements(
    engine: Engine, model: Model, deepspeed: DeepSpeed | None, fsdp2: FSDP2 | None
) -> list[str]:
    """What an engine lacks or cannot read, in sentences that name the key to change."""
    problems = []
    if engine == "deepspeed" and deepspeed is None:
        problems.append("engine deepspeed needs deepspeed.config")
    if engine != "deepspeed" and deepspeed is not None:
        problems.append(f"engine {engine} does not read deepspeed; remove it, or use engine deepspeed")
    if engine != "fsdp2" and fsdp2 is not None:
        problems.append(f"engine {engine} does not read fsdp2; remove it, or use engine fsdp2")
    if engine == "tensorflow" and model.architecture not in _KERAS_ARCHITECTURES:
        problems.append(f"engine tensorflow cannot build architecture {model.architecture}; use resnet or vit, or a torch engine")
    return problems
