"""The weights of a model, tensor by tensor: what sharding gathers, and what is too small to share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from trainwright_trainer.contract.model import Bert, Llama, Model, ResNet, ViT

Tensors = tuple[tuple[int, int], ...]
"""Elements of a tensor, and how many such tensors there are."""


@dataclass(frozen=True, slots=True)
class Layers:
    """Weights in elements."""

    blocks: tuple[tuple[Tensors, int], ...]
    """Tensors of a block, and how often the model has such a block."""
    ends: Tensors
    """Before and after the blocks: embeddings, norms, head."""
    looked_up: int = 0
    """Of an embedding table that enters no matrix product."""

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
        return max(sum(size * count for size, count in tensors) for tensors, _ in self.blocks)

    @property
    def outside(self) -> int:
        """All that is in no block."""
        return sum(size * count for size, count in self.ends)

    def up_to(self, elements: int) -> int:
        """Weights in tensors of at most so many elements."""
        return sum(size * count for size, count in self.tensors if size <= elements)


def layers(model: Model) -> Layers | None:
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
