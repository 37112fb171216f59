"""The layers of a model: their weights, tensor by tensor, and what their forward pass keeps for the backward pass.

The weights say what sharding gathers, and what is too small to share.

What is kept is an interval. It counts the tensors of one layer after Korthikanti et al. 2022 (arXiv:2205.05198, section 4),
with the attention matrix left out, since fused attention recomputes it. The lower bound keeps each in the compute precision;
the upper bound doubles that, for what is kept in fp32 (norms, and residuals under autocast) and for allocator slack, and adds
the gradient of the logits in fp32.

With activation checkpointing only the input of each layer is kept, and one layer at a time is computed again (section 5 there).
The logits are gone when the first layer is computed again, so the lower bound counts the larger of the two.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from trainwright_trainer.contract.model import Bert, Llama, ResNet, ViT


class Sized(Protocol):
    """A model's configuration."""

    @property
    def parameters(self) -> int | None:
        """None where it does not follow from the configuration."""


Tensors = tuple[tuple[int, int], ...]
"""Elements of a tensor, and how many such tensors there are."""


class Layers(NamedTuple):
    """Weights in elements."""

    blocks: tuple[tuple[Tensors, int], ...]
    """Tensors of a block, and how often the model has such a block."""
    ends: Tensors
    """Before and after the blocks: embeddings, norms, head."""
    looked_up: int = 0
    """Elements of an embedding table that is in no matrix product."""

    @property
    def tensors(self) -> Iterator[tuple[int, int]]:
        """Every tensor of the model, with how many there are."""
        yield from self.ends
        for tensors, times in self.blocks:
            yield from ((size, count * times) for size, count in tensors)

    @property
    def parameters(self) -> int:
        return sum(size * count for size, count in self.tensors)

    @property
    def largest(self) -> int:
        """The largest tensor."""
        return max(size for size, _ in self.tensors)

    @property
    def block(self) -> int:
        """The largest block."""
        return max((sum(size * count for size, count in tensors) for tensors, _ in self.blocks), default=0)

    @property
    def outside(self) -> int:
        """Everything that is in no block."""
        return sum(size * count for size, count in self.ends)

    def up_to(self, elements: int) -> int:
        """Weights in tensors of at most this many elements."""
        return sum(size * count for size, count in self.tensors if size <= elements)


def layers(model: Sized) -> Layers | None:
    """The tensors as ``transformers`` makes them; None where the architecture is not known here."""
    match model:
        case Llama():
            return _llama(model)
        case Bert():
            return _bert(model)
        case ViT():
            return _vit(model)
        case ResNet():
            return _resnet(model)
        case _:
            return None


def _llama(model: Llama) -> Layers:
    hidden, table = model.hidden_size, model.vocab_size * model.hidden_size
    key_value = hidden * (hidden // model.num_attention_heads) * model.key_value_heads
    block = ((hidden * hidden, 2), (key_value, 2), (hidden * model.intermediate_size, 3), (hidden, 2))
    tied = model.tie_word_embeddings
    return Layers(
        blocks=((block, model.num_hidden_layers),),
        ends=((table, 1 if tied else 2), (hidden, 1)),
        looked_up=0 if tied else table,
    )


def _encoder(hidden: int, inner: int) -> Tensors:
    """A transformer layer with biases: q, k, v, o, the two of the MLP, two norms."""
    return ((hidden * hidden, 4), (hidden * inner, 2), (hidden, 9), (inner, 1))


def _bert(model: Bert) -> Layers:
    hidden, table = model.hidden_size, model.vocab_size * model.hidden_size
    embeddings = ((table, 1), (model.max_position_embeddings * hidden, 1), (model.type_vocab_size * hidden, 1), (hidden, 2))
    dense = ((hidden * hidden, 1), (hidden, 1))
    if model.num_labels is None:
        head: Tensors = ((hidden, 2), (model.vocab_size, 1))
    else:
        head = ((hidden * model.num_labels, 1), (model.num_labels, 1))
    return Layers(
        blocks=((_encoder(hidden, model.intermediate_size), model.num_hidden_layers),),
        ends=(*embeddings, *dense, *head),
        looked_up=table if model.num_labels is not None else 0,
    )


def _vit(model: ViT) -> Layers:
    hidden = model.hidden_size
    patch = model.num_channels * model.patch_size**2
    ends = ((hidden * patch, 1), (hidden, 4), (hidden * model.sequence_length, 1))
    return Layers(
        blocks=((_encoder(hidden, model.intermediate_size), model.num_hidden_layers),),
        ends=(*ends, (hidden * model.num_labels, 1), (model.num_labels, 1)),
    )


def _resnet(model: ResNet) -> Layers:
    stem = _convolution(model.num_channels, model.embedding_size, 7)
    blocks, inputs = [], model.embedding_size
    for stage, (width, depth) in enumerate(zip(model.hidden_sizes, model.depths, strict=True)):
        for block in range(min(depth, 2)):
            stride = 2 if block == 0 and stage > 0 else 1
            tensors = _residual(model, inputs, width, shortcut=inputs != width or stride != 1)
            blocks.append((tensors, 1 if block == 0 else depth - 1))
            inputs = width
    return Layers(blocks=tuple(blocks), ends=(*stem, (inputs * model.num_labels, 1), (model.num_labels, 1)))


def _residual(model: ResNet, inputs: int, width: int, *, shortcut: bool) -> Tensors:
    inner = width // 4
    steps: tuple[tuple[int, int, int], ...]
    if model.layer_type == "bottleneck":
        steps = ((inputs, inner, 1), (inner, inner, 3), (inner, width, 1))
    else:
        steps = ((inputs, width, 3), (width, width, 3))
    if shortcut:
        steps = (*steps, (inputs, width, 1))
    return tuple(tensor for step in steps for tensor in _convolution(*step))


def _convolution(inputs: int, outputs: int, kernel: int) -> Tensors:
    """Its weights without a bias, and the scale and shift of its batch norm."""
    return ((inputs * outputs * kernel * kernel, 1), (outputs, 2))


# What the forward pass keeps.


class Kept(NamedTuple):
    """Elements that the forward pass of one sample keeps."""

    all_layers: int
    largest_layer: int
    inputs: int
    """Of all layers together."""
    head: int = 0
    logits: int = 0
    formula: str = ""


def kept(model: Sized, tokens: int) -> Kept | None:
    """Of a sample of so many tokens; None where the architecture is not known here."""
    match model:
        case Llama():
            key_value = model.key_value_heads * (model.hidden_size // model.num_attention_heads)
            layer = 6 * model.hidden_size + 2 * key_value + 4 * model.intermediate_size
            return _transformer_kept(tokens, model.num_hidden_layers, layer, model.hidden_size, model.vocab_size)
        case Bert():
            layer = 8 * model.hidden_size + 2 * model.intermediate_size
            vocabulary = model.vocab_size if model.num_labels is None else 0
            return _transformer_kept(tokens, model.num_hidden_layers, layer, model.hidden_size, vocabulary)
        case ViT():
            layer = 8 * model.hidden_size + 2 * model.intermediate_size
            return _transformer_kept(tokens, model.num_hidden_layers, layer, model.hidden_size, 0)
        case ResNet():
            return _resnet_kept(model)
        case _:
            return None


def _transformer_kept(tokens: int, count: int, layer: int, hidden: int, vocabulary: int) -> Kept:
    head = f" + 2 x {vocabulary:,} logits" if vocabulary else ""
    return Kept(
        all_layers=tokens * count * layer,
        largest_layer=tokens * layer,
        inputs=tokens * count * hidden,
        head=2 * tokens * vocabulary,
        logits=tokens * vocabulary,
        formula=f"{tokens:,} tokens x ({count} layers x {layer:,}{head})",
    )


def _resnet_kept(model: ResNet) -> Kept:
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
    return Kept(all_layers=total, largest_layer=largest, inputs=inputs, formula="outputs of convolutions and batch norms")
