"""What the forward pass keeps for the backward pass: an interval.

Counts the tensors of one layer after Korthikanti et al. 2022 (arXiv:2205.05198, section 4), with the attention matrix left out,
since fused attention recomputes it. The lower bound keeps each in the compute precision; the upper bound doubles that, for what
is kept in fp32 (norms, and residuals under autocast) and for allocator slack, and adds the gradient of the logits in fp32.

With activation checkpointing only the input of each layer is kept, and one layer at a time is computed again (section 5 there).
The logits are gone when the first layer is computed again, so the lower bound counts the larger of the two.
"""

from __future__ import annotations

from dataclasses import dataclass

from trainwright.run import TrainerWorkload
from trainwright_trainer.contract.data import HFDataset, PythonSource, TokenFiles
from trainwright_trainer.contract.model import Bert, Llama, ResNet, ViT


@dataclass(frozen=True, slots=True)
class Activations:
    """Bytes of one micro batch."""

    low: int
    high: int
    formula: str


@dataclass(frozen=True, slots=True)
class _Kept:
    """Elements that one sample leaves behind."""

    all_layers: int
    largest_layer: int
    inputs: int
    """Of all layers."""
    head: int = 0
    logits: int = 0
    formula: str = ""


def activations(work: TrainerWorkload, micro: int, *, autocast: bool) -> Activations:
    """Of a micro batch; ``autocast`` says that weights are fp32 and residuals too."""
    size = 4 if work.precision == "fp32" else 2
    kept = _kept(work)
    if kept is None:
        return Activations(0, 8 * (work.model.parameters or 0), "unknown architecture: between nothing and twice the weights")
    if not work.activation_checkpointing:
        low = micro * size * (kept.all_layers + kept.head)
        each = f"{size} bytes x {micro:,} samples x {kept.all_layers + kept.head:,} elements ({kept.formula})"
        return Activations(low, 2 * low + 4 * micro * kept.logits, f"{each}, doubled above")
    low = micro * size * (kept.inputs + max(kept.largest_layer, kept.head))
    inputs = kept.inputs * (4 if autocast else size)
    high = micro * (inputs + 2 * size * (kept.largest_layer + kept.head) + 4 * kept.logits)
    each = f"{size} bytes x {micro:,} samples x ({kept.inputs:,} inputs of layers + one layer of {kept.largest_layer:,})"
    return Activations(low, high, f"{each}, the layer doubled above, with {kept.head:,} of the head")


def sequence_length(work: TrainerWorkload) -> int | None:
    """Tokens of one sample; None where samples are no text."""
    if isinstance(work.data, PythonSource | TokenFiles | HFDataset):
        return work.data.sequence_length
    return work.model.sequence_length if isinstance(work.model, ViT) else None


def _kept(work: TrainerWorkload) -> _Kept | None:
    model, tokens = work.model, sequence_length(work) or 1
    match model:
        case Llama():
            key_value = model.key_value_heads * (model.hidden_size // model.num_attention_heads)
            layer = 6 * model.hidden_size + 2 * key_value + 4 * model.intermediate_size
            return _transformer(tokens, model.num_hidden_layers, layer, model.hidden_size, model.vocab_size)
        case Bert():
            layer = 8 * model.hidden_size + 2 * model.intermediate_size
            vocabulary = model.vocab_size if model.num_labels is None else 0
            return _transformer(tokens, model.num_hidden_layers, layer, model.hidden_size, vocabulary)
        case ViT():
            layer = 8 * model.hidden_size + 2 * model.intermediate_size
            return _transformer(tokens, model.num_hidden_layers, layer, model.hidden_size, 0)
        case ResNet():
            return _resnet(model)
        case _:
            return None


def _transformer(tokens: int, count: int, layer: int, hidden: int, vocabulary: int) -> _Kept:
    head = f" + 2 x {vocabulary:,} logits" if vocabulary else ""
    return _Kept(
        all_layers=tokens * count * layer,
        largest_layer=tokens * layer,
        inputs=tokens * count * hidden,
        head=2 * tokens * vocabulary,
        logits=tokens * vocabulary,
        formula=f"{tokens:,} tokens x ({count} layers x {layer:,}{head})",
    )


def _resnet(model: ResNet) -> _Kept:
    """Outputs of every convolution and of its batch norm."""
    side = max(1, model.image_size // 2)
    total = largest = 2 * side * side * model.embedding_size
    side, inputs = max(1, side // 2), 0
    for stage, (width, depth) in enumerate(zip(model.hidden_sizes, model.depths, strict=True)):
        side = max(1, side // 2) if stage else side
        block = width + 2 * (width // 4) if model.layer_type == "bottleneck" else 2 * width
        total += 2 * depth * side * side * block
        largest = max(largest, 2 * side * side * block)
        inputs += depth * side * side * width
    return _Kept(all_layers=total, largest_layer=largest, inputs=inputs, formula="outputs of convolutions and batch norms")
