"""What the forward pass keeps for the backward pass, as an interval.

It counts the tensors of one layer after Korthikanti et al. 2022 (arXiv:2205.05198, section 4), with the attention matrix left
out, since fused attention recomputes it. The lower bound keeps each in the compute precision; the upper bound doubles that, for
what is kept in fp32 (norms, and residuals under autocast) and for allocator slack, and adds the gradient of the logits in fp32.

With activation checkpointing only the input of each layer is kept, and one layer at a time is computed again (section 5 there).
The logits are gone when the first layer is computed again, so the lower bound counts the larger of the two.
"""

from __future__ import annotations

from typing import NamedTuple

from trainwright_trainer.contract.estimate.computation import Computation, MemoryPart
from trainwright_trainer.contract.model import Bert, Llama, ResNet, ViT


def activations(work: Computation, *, autocast: bool) -> MemoryPart:
    """Of one micro batch; with ``autocast``, weights and residuals are fp32."""
    size, micro, sample = work.bytes, work.micro, _kept(work.trained.model, work.tokens or 1)
    if sample is None:
        return MemoryPart("activations", 0, 8 * work.parameters, "unknown architecture: between nothing and twice the weights")
    if not work.trained.activation_checkpointing:
        elements = sample.all_layers + sample.head
        low = micro * size * elements
        each = f"{size} bytes x {micro:,} samples x {elements:,} elements ({sample.formula})"
        return MemoryPart("activations", low, 2 * low + 4 * micro * sample.logits, f"{each}, doubled above")
    layer = sample.largest_layer
    low = micro * size * (sample.inputs + max(layer, sample.head))
    inputs = sample.inputs * (4 if autocast else size)
    high = micro * (inputs + 2 * size * (layer + sample.head) + 4 * sample.logits)
    each = f"{size} bytes x {micro:,} samples x ({sample.inputs:,} inputs of layers + one layer of {layer:,})"
    return MemoryPart("activations", low, high, f"{each}, the layer doubled above, with {sample.head:,} of the head")


class _Kept(NamedTuple):
    """Elements that the forward pass of one sample keeps."""

    all_layers: int
    largest_layer: int
    inputs: int
    """Of all layers together."""
    head: int = 0
    logits: int = 0
    formula: str = ""


def _kept(model: object, tokens: int) -> _Kept | None:
    """Of a sample of so many tokens; None where the architecture is not known here."""
    match model:
        case Llama():
            key_value = model.key_value_heads * (model.hidden_size // model.num_attention_heads)
            layer = 6 * model.hidden_size + 2 * key_value + 4 * model.intermediate_size
            return _transformer_kept(tokens, model.num_hidden_layers, layer, model.hidden_size, model.vocab_size)
        case Bert() | ViT():
            layer = 8 * model.hidden_size + 2 * model.intermediate_size
            vocabulary = model.vocab_size if isinstance(model, Bert) and model.num_labels is None else 0
            return _transformer_kept(tokens, model.num_hidden_layers, layer, model.hidden_size, vocabulary)
        case ResNet():
            return _resnet_kept(model)
        case _:
            return None


def _transformer_kept(tokens: int, count: int, layer: int, hidden: int, vocabulary: int) -> _Kept:
    head = f" + 2 x {vocabulary:,} logits" if vocabulary else ""
    return _Kept(
        all_layers=tokens * count * layer,
        largest_layer=tokens * layer,
        inputs=tokens * count * hidden,
        head=2 * tokens * vocabulary,
        logits=tokens * vocabulary,
        formula=f"{tokens:,} tokens x ({count} layers x {layer:,}{head})",
    )


def _resnet_kept(model: ResNet) -> _Kept:
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
