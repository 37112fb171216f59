"""What one rank computes in a step of the optimizer: all that the estimates read of a run but how its states are spread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from trainwright_trainer.contract.data import Data, HFDataset, PythonSource, TokenFiles
from trainwright_trainer.contract.model import Layers, Shaped, ViT
from trainwright_trainer.contract.training import PRECISION_BYTES, Optimizer, Precision


class Sized(Protocol):
    """A model by its configuration."""

    @property
    def parameters(self) -> int | None: ...


class Trained(Protocol):
    """What is trained, and how: our trainer's work, or what a script states of its own."""

    @property
    def model(self) -> Sized: ...
    @property
    def precision(self) -> Precision: ...
    @property
    def optimizer(self) -> Optimizer: ...
    @property
    def gradient_reduction(self) -> Precision | None: ...
    @property
    def activation_checkpointing(self) -> bool: ...


class Computation(NamedTuple):
    """Of one rank, with its micro batches."""

    trained: Trained
    tokens: int | None
    """Of one sample; None where samples are no sequences."""
    parameters: int
    layers: Layers | None
    """None where the tensors are not known."""
    micro: int
    """Samples of a forward pass."""
    accumulation: int
    """Forward passes."""

    @property
    def bytes(self) -> int:
        """Of one element in the compute precision."""
        return PRECISION_BYTES[self.trained.precision]

    @property
    def half(self) -> bool:
        return self.bytes == 2

    @property
    def state(self) -> int:
        """Bytes of the optimizer's state for each parameter."""
        return self.trained.optimizer.state_bytes

    @property
    def blocks(self) -> int:
        """Repeated layers; 1 where they are not known."""
        return getattr(self.trained.model, "num_hidden_layers", 1)

    @property
    def largest(self) -> tuple[int, int]:
        """Elements of the largest tensor, as an interval."""
        return (self.layers.largest, self.layers.largest) if self.layers else (0, self.parameters)


@dataclass(frozen=True, slots=True)
class MemoryPart:
    """Bytes of one rank, as an interval."""

    name: str
    low: int
    high: int
    formula: str


def computation(
    work: Trained, tokens: int | None, micro: int, accumulation: int, counted: Layers | None = None
) -> Computation | None:
    """None where the model's size is not known.

    Args:
        tokens: Of one sample; None where samples are no sequences.
        counted: The tensors of the model itself; default: as far as they follow from its configuration.
    """
    layers = counted or (work.model.layers if isinstance(work.model, Shaped) else None)
    parameters = layers.parameters if layers else work.model.parameters
    if parameters is None:
        return None
    return Computation(work, tokens, parameters, layers, micro, accumulation)


def sequence_length(model: Sized, data: Data) -> int | None:
    """Tokens of one sample; None if samples are not sequences."""
    if isinstance(data, PythonSource | TokenFiles | HFDataset):
        return data.sequence_length
    return model.sequence_length if isinstance(model, ViT) else None
