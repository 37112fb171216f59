"""ZeRO: ranks share the model states among them, and gather what they need."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from trainwright.model import Model
from trainwright.topology.torch import ElasticTopology
from trainwright_trainer.contract import engine as contract
from trainwright_trainer.contract.base import PlacedError
from trainwright_trainer.contract.engine import FSDP2Settings, torn_groups
from trainwright_trainer.contract.layout import DEEPSPEED_FILE, SPEC_DIRECTORY
from trainwright_trainer.contract.sharding import Sharding, of_deepspeed, of_fsdp2
from trainwright_trainer.contract.training import Precision

ShardingEngine = Literal["deepspeed", "fsdp2"]
Elements = Annotated[int, Field(ge=1, le=2**53)]
OffloadDevice = Literal["none", "cpu"]

ENGINE_TITLES: dict[ShardingEngine, str] = {"deepspeed": "DeepSpeed", "fsdp2": "FSDP2"}


class Offload(Model):
    """What is moved from GPU memory to host memory."""

    optimizer: OffloadDevice = "none"
    """Master weights and optimizer state, and the step of the optimizer."""
    weights: OffloadDevice = "none"
    """The shards of the weights (zero3); the optimizer must then move too."""


class DeepSpeed(Model):
    """DeepSpeed's own settings, by its own names; sizes are in elements, not bytes."""

    overlap_comm: bool = True
    """Reduce gradients during the backward pass; in zero1 and zero2 this needs a second bucket."""
    contiguous_gradients: bool = True
    """Copy gradients into one buffer as they are computed, so that memory is not fragmented."""
    reduce_bucket_size: Elements = 500_000_000
    """Gradients that are reduced at a time."""
    allgather_bucket_size: Annotated[int, Field(ge=2, le=2**53, multiple_of=2)] = 500_000_000
    """Weights that are gathered at a time after the step (stages 1 and 2)."""
    grad_accum_dtype: Precision | None = None
    """Type in which gradients are added up; default: fp32 if bf16 is accumulated, otherwise that of the weights."""
    stage3_prefetch_bucket_size: Elements = 50_000_000
    """Weights that are gathered ahead of their use."""
    stage3_param_persistence_threshold: Annotated[int, Field(ge=0, le=2**53)] = 100_000
    """Weights of at most this many elements stay whole on every rank."""
    stage3_max_live_parameters: Elements = 1_000_000_000
    """Weights that may be gathered at the same time."""
    stage3_max_reuse_distance: Elements = 1_000_000_000
    """A weight that is used again within this many elements is not freed in between."""
    stage3_gather_16bit_weights_on_model_save: bool = False
    """Whether `save_16bit_model` gathers the whole model in rank 0's memory; our checkpoints do not need it."""
    sub_group_size: Elements = 1_000_000_000
    """Weights that the optimizer updates at a time."""


STAGE_3_ONLY = (
    "stage3_prefetch_bucket_size",
    "stage3_param_persistence_threshold",
    "stage3_max_live_parameters",
    "stage3_max_reuse_distance",
    "stage3_gather_16bit_weights_on_model_save",
    "sub_group_size",
)
"""Keys of :class:`DeepSpeed` that only stage 3 reads (deepspeed/runtime/zero/stage3.py)."""


class ZeRO(ElasticTopology):
    """``kind: zero1``, ``zero2`` or ``zero3`` (Rajbhandari et al. 2020, arXiv:1910.02054)."""

    kind: Literal["zero1", "zero2", "zero3"]
    """What to shard: optimizer state (zero1), gradients too (zero2), weights too (zero3)."""
    engine: ShardingEngine
    """`deepspeed`, or torch's own `fsdp2` (zero3 only)."""
    offload: Offload = Field(default_factory=Offload.model_construct)
    """What is moved to host memory."""
    deepspeed: DeepSpeed | None = None
    """Settings of engine deepspeed."""
    fsdp2: FSDP2Settings | None = None
    """Settings of engine fsdp2."""

    @model_validator(mode="after")
    def _fits_the_engine(self) -> Self:
        other: ShardingEngine = "fsdp2" if self.engine == "deepspeed" else "deepspeed"
        if getattr(self, other) is not None:
            raise PlacedError(f"engine {self.engine} does not read {other}; remove it, or write engine: {other}", other)
        if self.engine == "fsdp2" and self.stage < 3:
            message = f"engine fsdp2 shards weights too, and {self.kind} does not; write kind: zero3, or engine: deepspeed"
            raise PlacedError(message, "engine")
        if self.engine == "deepspeed" and self.elastic:
            other_way = "write engine: fsdp2" if self.stage == 3 else "write kind: zero3 and engine: fsdp2"
            raise PlacedError(
                "a checkpoint of DeepSpeed is sharded for its number of ranks, so no node may come or go; remove elastic, or "
                f"{other_way}",
                "elastic",
            )
        if self.engine == "fsdp2" and self.offload.weights != self.offload.optimizer:
            message = "engine fsdp2 moves weights and optimizer together; write offload: {optimizer: cpu, weights: cpu}, or none"
            raise PlacedError(message, "offload")
        return self

    @model_validator(mode="after")
    def _groups_are_whole(self) -> Self:
        """At every number of nodes that the run may have."""
        moves = self.elastic is not None and self.elastic.min_nodes < self.elastic.max_nodes
        if self.shard_degree and (torn := torn_groups(self.shard_degree, self.nodes, self.ranks_per_node, nodes_move=moves)):
            raise PlacedError(torn, "fsdp2", "shard_degree")
        return self

    @model_validator(mode="after")
    def _fits_the_stage(self) -> Self:
        if self.offload.weights == "cpu" and self.stage < 3:
            message = f"{self.kind} keeps whole weights on every rank; remove offload.weights, which needs zero3"
            raise PlacedError(message, "offload", "weights")
        if self.offload.weights == "cpu" and self.offload.optimizer == "none":
            message = "weights alone would be carried back for each step; add offload.optimizer: cpu, which is the larger part"
            raise PlacedError(message, "offload")
        fields = DeepSpeed.model_fields
        idle = [key for key in STAGE_3_ONLY if self.stage < 3 and getattr(self.deepspeed_settings, key) != fields[key].default]
        if idle:
            raise PlacedError(f"only zero3 reads deepspeed.{idle[0]}, and this is {self.kind}; remove it", "deepspeed", idle[0])
        if self.deepspeed_settings.contiguous_gradients is False and self.offload.optimizer == "cpu":
            raise PlacedError(
                "with offload.optimizer: cpu DeepSpeed always has contiguous gradients; remove deepspeed.contiguous_gradients",
                "deepspeed", "contiguous_gradients",
            )
        return self

    @property
    def stage(self) -> Literal[1, 2, 3]:
        """Stage of ZeRO."""
        stages: dict[str, Literal[1, 2, 3]] = {"zero1": 1, "zero2": 2, "zero3": 3}
        return stages[self.kind]

    @property
    def title(self) -> str:
        groups = f", shard groups of {self.shard_degree}" if self.shard_degree else ""
        return f"ZeRO-{self.stage} ({ENGINE_TITLES[self.engine]}{groups})"

    @property
    def checkpoint_format(self) -> str:
        return self.engine

    @property
    def deepspeed_settings(self) -> DeepSpeed:
        """DeepSpeed's settings as the run states them, or their defaults."""
        return self.deepspeed or DeepSpeed.model_construct()

    @property
    def reshards(self) -> bool:
        """Whether gathered weights are let go after the forward pass."""
        return self.fsdp2 is None or self.fsdp2.reshard_after_forward

    @property
    def shard_degree(self) -> int | None:
        """Ranks of a group that shares one copy; None where all do."""
        return self.fsdp2.shard_degree if self.fsdp2 else None

    def settings(self) -> Mapping[str, Any]:
        """Where DeepSpeed's configuration is, or what ``fully_shard`` is told."""
        if self.engine == "deepspeed":
            return {"deepspeed": {"config": f"{SPEC_DIRECTORY}/{DEEPSPEED_FILE}"}}
        return {"fsdp2": {**dict(self.fsdp2 or FSDP2Settings()), "offload_weights": self.offload.weights == "cpu"}}

    @property
    def zero_optimization(self) -> dict[str, Any]:
        """What the ranks share and in which portions it travels, as DeepSpeed's configuration says it."""
        settings = self.deepspeed_settings
        zero: dict[str, Any] = {
            "stage": self.stage,
            "overlap_comm": settings.overlap_comm,
            "contiguous_gradients": settings.contiguous_gradients,
            "reduce_scatter": True,
            "reduce_bucket_size": settings.reduce_bucket_size,
        }
        if self.stage < 3:
            zero |= {
                "use_multi_rank_bucket_allreduce": True,
                "allgather_partitions": True,
                "allgather_bucket_size": settings.allgather_bucket_size,
            }
        else:
            zero |= {key: getattr(settings, key) for key in STAGE_3_ONLY}
        if self.offload.optimizer == "cpu":
            zero["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
        if self.offload.weights == "cpu":
            zero["offload_param"] = {"device": "cpu", "pin_memory": True}
        return zero

    def sharding(self) -> Sharding:
        """As the trainer reads it from the engine's settings."""
        if self.engine == "fsdp2":
            return of_fsdp2(contract.FSDP2.model_construct(**self.settings()["fsdp2"]), self.fewest_ranks)
        kept = {"grad_accum_dtype": self.deepspeed_settings.grad_accum_dtype}
        return of_deepspeed({"zero_optimization": self.zero_optimization, "data_types": kept}, self.fewest_ranks)
