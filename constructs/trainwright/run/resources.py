"""What a pod asks of its node."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from trainwright.model import ExtendedResource, Model
from trainwright.units import Bytes, Cpu
from trainwright_trainer.contract.base import PlacedError

NONE = "none"
"""An amount that is not limited."""

_OR_NONE = Discriminator(lambda value: "none" if value == NONE else "amount")
CpuLimit = Annotated[Annotated[Cpu, Tag("amount")] | Annotated[Literal["none"], Tag("none")], _OR_NONE]
MemoryLimit = Annotated[Annotated[Bytes, Tag("amount")] | Annotated[Literal["none"], Tag("none")], _OR_NONE]

PageSize = Literal["2Mi", "32Mi", "64Ki", "1Gi", "512Mi", "16Gi"]
"""Sizes of huge pages that Linux has, on x86 and on Arm."""


def _whole_pages(pages: dict[PageSize, Bytes]) -> dict[PageSize, Bytes]:
    for size, memory in pages.items():
        if memory.bytes % Bytes.parse(size).bytes:
            raise ValueError(f"{memory} is no multiple of {size}, the size of the pages; write whole pages, as in {size}: 5Gi")
    return pages


HugePages = Annotated[dict[PageSize, Bytes], AfterValidator(_whole_pages)]
"""Size of the pages -> memory in them (pkg/apis/core/v1/helper, IsHugePageResourceValueDivisible)."""


class Requests(Model):
    """What the scheduler keeps free for a pod, where that is less than its limits, or where it has none."""

    cpu: Cpu | None = None
    """CPUs."""
    memory: Bytes | None = None
    """Memory."""


class Resources(Model):
    """Of one pod. Requests equal limits, unless they are stated apart."""

    cpu: CpuLimit | None = None
    """CPUs, or `none` for a pod without a limit. Default: the pod's share of the node by GPUs, or one per process."""
    memory: MemoryLimit | None = None
    """Memory, or `none` for a pod without a limit. Default: the pod's share of the node by GPUs, or 2Gi per process."""
    requests: Requests = Field(default_factory=Requests.model_construct)
    """Default: as much as the limits; nothing where the limit is `none`."""
    shared_memory: Bytes | None = None
    """Size of /dev/shm, which counts towards memory. Default: 2Gi per rank on GPUs, 256Mi on CPUs."""
    ephemeral_storage: Bytes | None = None
    """Disk of the node for logs, scratch and the writable root; a pod that takes more is evicted. Default: not stated."""
    hugepages: HugePages = Field(default_factory=dict)
    """Size of the pages -> how much memory in such pages, as EFA wants `2Mi: 5120Mi`."""
    devices: dict[ExtendedResource, Annotated[int, Field(ge=0, le=4096)]] = Field(default_factory=dict)
    """Extended resource -> how many of it, in place of the share that the pool gives; 0 asks for none. GPUs are in `topology`."""

    @model_validator(mode="after")
    def _requests_are_within_limits(self) -> Self:
        for name in ("cpu", "memory"):
            request, limit = getattr(self.requests, name), getattr(self, name)
            if request is not None and isinstance(limit, Cpu | Bytes) and request > limit:
                message = f"requests.{name} is {request}, and the limit {limit}; lower the request, or raise {name}"
                raise PlacedError(message, "requests", name)
        return self
