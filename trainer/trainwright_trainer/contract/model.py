"""Model architectures a run can name: typed subsets of ``transformers`` configurations, and their parameter counts.

Every field is written into the run's specification, so a new default in ``transformers`` changes no model. The tensors of each
are tested against the real modules.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import Field, JsonValue, SerializerFunctionWrapHandler, field_validator, model_serializer, model_validator

from trainwright_trainer.contract.base import Contract, Count, ListOf

Tensors = tuple[tuple[int, int], ...]
"""Elements of a tensor, and how many such tensors there are."""


class Layers(NamedTuple):
    """The weights of a model in elements: what sharding gathers at a time, and what is too small to share."""

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
        return _elements(self.tensors)

    @property
    def largest(self) -> int:
        """The largest tensor."""
        return max(size for size, _ in self.tensors)

    @property
    def block(self) -> int:
        """The largest block."""
        return max((_elements(tensors) for tensors, _ in self.blocks), default=0)

    @property
    def outside(self) -> int:
        """Everything that is in no block."""
        return _elements(self.ends)

    def up_to(self, elements: int) -> int:
        """Weights in tensors of at most this many elements."""
        return _elements((size, count) for size, count in self.tensors if size <= elements)


def _elements(tensors: Iterable[tuple[int, int]]) -> int:
    return sum(size * count for size, count in tensors)


class Shaped(Contract):
    """An architecture whose tensors are known here."""

    @property
    @abstractmethod
    def layers(self) -> Layers:
        """Its tensors as ``transformers`` makes them."""

    @property
    def parameters(self) -> int:
        """Number of weights, tied ones once."""
        return self.layers.parameters


class LlamaRopeScaling(Contract):
    """Rotary frequencies stretched for long contexts, as Llama 3.1 does it (``rope_type: llama3`` of ``transformers``).

    The defaults are those of the 8B, 70B and 405B models of Llama 3.1.
    """

    factor: Annotated[float, Field(ge=1, le=1e6)] = 8.0
    """Factor by which low frequencies are stretched."""
    low_freq_factor: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    """Wavelengths above the original context divided by this are stretched by the whole factor."""
    high_freq_factor: Annotated[float, Field(gt=0, le=1e6)] = 4.0
    """Wavelengths below the original context divided by this stay as they are; those between are interpolated."""
    original_max_position_embeddings: Count = 8192
    """Context that the model was trained with before it was stretched."""

    @model_validator(mode="after")
    def _low_is_below_high(self) -> Self:
        if self.low_freq_factor >= self.high_freq_factor:
            raise ValueError(f"low_freq_factor {self.low_freq_factor:g} is not below high_freq_factor {self.high_freq_factor:g}")
        return self


_NEWER_LLAMA_KEYS = ("rope_scaling", "rms_norm_eps")


class Llama(Shaped):
    """A Llama decoder with an untied or tied language-model head."""

    architecture: Literal["llama"] = "llama"
    vocab_size: Count
    """Tokens that the model knows."""
    hidden_size: Count
    """Width of the residual stream; a multiple of the attention heads."""
    intermediate_size: Count
    """Width inside the gated MLP."""
    num_hidden_layers: Count
    """Decoder blocks."""
    num_attention_heads: Count
    """Query heads of each block."""
    num_key_value_heads: Count | None = None
    """Grouped-query attention; default: as many as attention heads."""
    max_position_embeddings: Count = 4096
    """Longest sequence, in tokens."""
    rope_theta: float = Field(default=10000.0, gt=0, le=1e12)
    """Base of the rotary frequencies."""
    rope_scaling: LlamaRopeScaling | None = None
    """Stretching of the frequencies; default: none."""
    rms_norm_eps: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Default: 1e-6. Llama 3.1 has 1e-5."""
    tie_word_embeddings: bool = False
    """Whether the head shares the weights of the embedding."""

    @model_serializer(mode="wrap")
    def _without_newer_keys_that_are_not_set(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """A lineage of checkpoints is a hash over all keys of the model, and a newer contract must not move it."""
        return {key: value for key, value in write(self).items() if value is not None or key not in _NEWER_LLAMA_KEYS}

    @model_validator(mode="after")
    def _heads_divide(self) -> Self:
        _check_heads(self.hidden_size, self.num_attention_heads)
        if self.num_attention_heads % self.key_value_heads:
            raise ValueError(
                f"num_attention_heads {self.num_attention_heads} is not a multiple of num_key_value_heads {self.key_value_heads}"
            )
        return self

    @property
    def key_value_heads(self) -> int:
        return self.num_key_value_heads or self.num_attention_heads

    @property
    def layers(self) -> Layers:
        """A block is q/k/v/o and gate/up/down projections with two norms; at the ends embedding, norm, and the head if untied."""
        hidden, table, tied = self.hidden_size, self.vocab_size * self.hidden_size, self.tie_word_embeddings
        key_value = hidden * (hidden // self.num_attention_heads) * self.key_value_heads
        block = ((hidden * hidden, 2), (key_value, 2), (hidden * self.intermediate_size, 3), (hidden, 2))
        return Layers(
            blocks=((block, self.num_hidden_layers),),
            ends=((table, 1 if tied else 2), (hidden, 1)),
            looked_up=0 if tied else table,
        )


class ViT(Shaped):
    """A vision transformer with a linear classifier on the class token."""

    architecture: Literal["vit"] = "vit"
    image_size: Count
    """Pixels per side."""
    patch_size: Count
    """Pixels per side of a patch; must divide the image."""
    num_channels: Count = 3
    """Colours of the image; 1 for grey."""
    hidden_size: Count
    """Width of the residual stream; a multiple of the attention heads."""
    intermediate_size: Count
    """Width inside the MLP."""
    num_hidden_layers: Count
    """Encoder blocks."""
    num_attention_heads: Count
    """Heads of each block."""
    num_labels: Count
    """Classes."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Share of activations that are dropped in training."""

    @model_validator(mode="after")
    def _patches_fit(self) -> Self:
        if self.image_size % self.patch_size:
            raise ValueError(f"image_size {self.image_size} is not a multiple of patch_size {self.patch_size}")
        _check_heads(self.hidden_size, self.num_attention_heads)
        return self

    @property
    def sequence_length(self) -> int:
        """Patches and the class token."""
        return (self.image_size // self.patch_size) ** 2 + 1

    @property
    def layers(self) -> Layers:
        """At the ends the embeddings of patches and positions with the class token, norm, classifier."""
        hidden, patch = self.hidden_size, self.num_channels * self.patch_size**2
        ends = ((hidden * patch, 1), (hidden, 4), (hidden * self.sequence_length, 1))
        return Layers(
            blocks=((_encoder(hidden, self.intermediate_size), self.num_hidden_layers),),
            ends=(*ends, (hidden * self.num_labels, 1), (self.num_labels, 1)),
        )


class ResNet(Shaped):
    """A ResNet with bottleneck or basic blocks. It uses batch statistics, so accumulation changes its numbers."""

    architecture: Literal["resnet"] = "resnet"
    num_channels: Count = 3
    """Colours of the image; 1 for grey."""
    embedding_size: Count = 64
    """Channels after the first convolution."""
    hidden_sizes: Annotated[ListOf[Count], Field(min_length=1, max_length=8)] = (256, 512, 1024, 2048)
    """Channels of each stage."""
    depths: Annotated[ListOf[Annotated[int, Field(ge=1, le=1000)]], Field(min_length=1, max_length=8)] = (3, 4, 6, 3)
    """Blocks of each stage."""
    layer_type: Literal["basic", "bottleneck"] = "bottleneck"
    """Two 3 x 3 convolutions a block, or three with a narrow one in the middle (ResNet-50 and larger)."""
    image_size: Count = 224
    """Pixels per side."""
    num_labels: Count
    """Classes."""

    @model_validator(mode="after")
    def _stages_match(self) -> Self:
        if len(self.hidden_sizes) != len(self.depths):
            raise ValueError(f"hidden_sizes has {len(self.hidden_sizes)} stages and depths {len(self.depths)}")
        return self

    @property
    def layers(self) -> Layers:
        """Stem, blocks and classifier."""
        blocks, inputs = [], self.embedding_size
        for stage, (width, depth) in enumerate(zip(self.hidden_sizes, self.depths, strict=True)):
            for block in range(min(depth, 2)):
                stride = 2 if block == 0 and stage > 0 else 1
                tensors = self._residual(inputs, width, shortcut=inputs != width or stride != 1)
                blocks.append((tensors, 1 if block == 0 else depth - 1))
                inputs = width
        ends = (*_convolution(self.num_channels, self.embedding_size, 7), (inputs * self.num_labels, 1), (self.num_labels, 1))
        return Layers(tuple(blocks), ends)

    def _residual(self, inputs: int, width: int, *, shortcut: bool) -> Tensors:
        inner = width // 4
        steps: tuple[tuple[int, int, int], ...]
        if self.layer_type == "bottleneck":
            steps = ((inputs, inner, 1), (inner, inner, 3), (inner, width, 1))
        else:
            steps = ((inputs, width, 3), (width, width, 3))
        if shortcut:
            steps = (*steps, (inputs, width, 1))
        return tuple(tensor for step in steps for tensor in _convolution(*step))


class Bert(Shaped):
    """A BERT encoder with a masked-language-model head, or, with ``num_labels``, with a classifier on the pooled first token."""

    architecture: Literal["bert"] = "bert"
    vocab_size: Count = 30522
    """Tokens that the model knows."""
    hidden_size: Count
    """Width of the residual stream; a multiple of the attention heads."""
    intermediate_size: Count
    """Width inside the MLP."""
    num_hidden_layers: Count
    """Encoder blocks."""
    num_attention_heads: Count
    """Heads of each block."""
    max_position_embeddings: Count = 512
    """Longest sequence, in tokens."""
    type_vocab_size: Count = 2
    """Kinds of segments: two for pairs of texts."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Share of activations that are dropped in training."""
    num_labels: Count | None = None
    """Number of classes (text-classification); without it, the model has a masked-lm head."""

    @model_validator(mode="after")
    def _heads_divide(self) -> Self:
        _check_heads(self.hidden_size, self.num_attention_heads)
        return self

    @property
    def layers(self) -> Layers:
        """At the ends embeddings with a norm, and the head.

        The masked-language-model head is a dense layer with a norm and a bias for each token; its weights are the
        word embeddings. A classifier is a pooler and a linear layer.
        """
        hidden, table = self.hidden_size, self.vocab_size * self.hidden_size
        embeddings = ((table, 1), (self.max_position_embeddings * hidden, 1), (self.type_vocab_size * hidden, 1), (hidden, 2))
        dense, labels = ((hidden * hidden, 1), (hidden, 1)), self.num_labels
        head: Tensors = ((hidden, 2), (self.vocab_size, 1)) if labels is None else ((hidden * labels, 1), (labels, 1))
        return Layers(
            blocks=((_encoder(hidden, self.intermediate_size), self.num_hidden_layers),),
            ends=(*embeddings, *dense, *head),
            looked_up=0 if labels is None else table,
        )


_AUXILIARY_LOSS = "output_router_logits"
"""Key by which a mixture of experts of ``transformers`` computes a loss for the balance of its experts. None does by default."""


class TransformersModel(Contract):
    """Any other architecture that ``transformers`` can build from a configuration without remote code.

    Its size is not known at compile time unless ``parameters`` states it.
    """

    architecture: Literal["transformers"] = "transformers"
    model_type: str = Field(min_length=1, max_length=64, pattern=r"^[a-z0-9_\-]+$")
    """Name of the architecture in `transformers`, such as `gpt2`."""
    config: dict[str, JsonValue] = Field(default_factory=dict)
    """Fields of its configuration; the others have its defaults."""
    parameters: Count | None = None
    """Number of parameters, for the estimates; without it, memory is not estimated."""

    @field_validator("config")
    @classmethod
    def _no_loss_that_nobody_adds(cls, config: dict[str, JsonValue]) -> dict[str, JsonValue]:
        parts = [config, *(part for part in config.values() if isinstance(part, dict))]
        if any(part.get(_AUXILIARY_LOSS) for part in parts):
            raise ValueError(
                f"{_AUXILIARY_LOSS} asks for an auxiliary loss that balances the experts, and this trainer minimises the loss of "
                "the task alone; remove it, or train with a script of your own"
            )
        return config


Model = Annotated[Llama | Bert | ViT | ResNet | TransformersModel, Field(discriminator="architecture")]


def _encoder(hidden: int, inner: int) -> Tensors:
    """A transformer layer with biases: q, k, v, o, the two of the MLP, two norms."""
    return ((hidden * hidden, 4), (hidden * inner, 2), (hidden, 9), (inner, 1))


def _convolution(inputs: int, outputs: int, kernel: int) -> Tensors:
    """Its weights without a bias, and the scale and shift of its batch norm."""
    return ((inputs * outputs * kernel * kernel, 1), (outputs, 2))


def _check_heads(hidden_size: int, heads: int) -> None:
    if hidden_size % heads:
        raise ValueError(f"hidden_size {hidden_size} is not a multiple of num_attention_heads {heads}")
