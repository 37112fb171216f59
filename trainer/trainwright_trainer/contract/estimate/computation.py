"""What one rank computes in a step of the optimizer, and the activations that it keeps meanwhile."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from trainwright_trainer.contract.data import Data, HFDataset, PythonSource, TokenFiles
from trainwright_trainer.contract.estimate.layers import Kept, Layers, Sized, kept, layers
from trainwright_trainer.contract.model import ViT
from trainwright_trainer.contract.training import PRECISION_BYTES, Optimizer, Precision


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
    """All that the estimates of memory and traffic read of a run, besides how its states are spread."""

    parameters: int
    layers: Layers | None
    """None where the tensors are not known."""
    blocks: int
    """Repeated layers; 1 where they are not known."""
    kept: Kept | None
    """By the forward pass of one sample; None where that is not known."""
    precision: Precision
    gradient_reduction: Precision | None
    """Type in which gradients are summed over ranks; None leaves it to the engine."""
    state: int
    """Bytes of the optimizer's state for each parameter."""
    recomputes: bool
    """Whether only the input of each layer is kept for the backward pass."""
    micro: int
    """Samples of a forward pass."""
    accumulation: int
    """Forward passes."""

    @property
    def bytes(self) -> int:
        """Of one element in the compute precision."""
        return PRECISION_BYTES[self.precision]

    @property
    def half(self) -> bool:
        return self.bytes == 2

    @property
    def largest(self) -> tuple[int, int]:
        """Elements of the largest tensor, as an interval."""
        return (self.layers.largest, self.layers.largest) if self.layers else (0, self.parameters)


def computation(
    work: Trained, tokens: int | None, micro: int, accumulation: int, counted: Layers | None = None
) -> Computation | None:
    """None where the model's size is not known.

    Args:
        tokens: Of one sample; None where samples are no sequences.
        counted: The tensors of the model itself; default: as far as they follow from its configuration.
    """
    shapes = counted or layers(work.model)
    parameters = counted.parameters if counted else work.model.parameters
    if parameters is None:
        return None
    return Computation(
        parameters=parameters,
        layers=shapes,
        blocks=getattr(work.model, "num_hidden_layers", 1),
        kept=kept(work.model, tokens or 1),
        precision=work.precision,
        gradient_reduction=work.gradient_reduction,
        state=work.optimizer.state_bytes,
        recomputes=work.activation_checkpointing,
        micro=micro,
        accumulation=accumulation,
    )


def sequence_length(model: Sized, data: Data) -> int | None:
    """Tokens of one sample; None if samples are not sequences."""
    if isinstance(data, PythonSource | TokenFiles | HFDataset):
        return data.sequence_length
    return model.sequence_length if isinstance(model, ViT) else None


class Activations(NamedTuple):
    """Bytes of one micro batch."""

    low: int
    high: int
    formula: str


def activations(work: Computation, *, autocast: bool) -> Activations:
    """Of one micro batch; with ``autocast``, weights and residuals are fp32."""
    size, of_sample, micro = work.bytes, work.kept, work.micro
    if of_sample is None:
        return Activations(0, 8 * work.parameters, "unknown architecture: between nothing and twice the weights")
    if not work.recomputes:
        elements = of_sample.all_layers + of_sample.head
        low = micro * size * elements
        each = f"{size} bytes x {micro:,} samples x {elements:,} elements ({of_sample.formula})"
        return Activations(low, 2 * low + 4 * micro * of_sample.logits, f"{each}, doubled above")
    layer = of_sample.largest_layer
    low = micro * size * (of_sample.inputs + max(layer, of_sample.head))
    inputs = of_sample.inputs * (4 if autocast else size)
    high = micro * (inputs + 2 * size * (layer + of_sample.head) + 4 * of_sample.logits)
    each = f"{size} bytes x {micro:,} samples x ({of_sample.inputs:,} inputs of layers + one layer of {layer:,})"
    return Activations(low, high, f"{each}, the layer doubled above, with {of_sample.head:,} of the head")
