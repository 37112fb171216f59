"""Model architectures a run can name: typed subsets of ``transformers`` configurations, and their parameter counts.

Every field is written into the run's specification, so a new default in ``transformers`` changes no model.
Parameter counts are derived from the layer shapes and tested against the real modules.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, JsonValue, SerializerFunctionWrapHandler, field_validator, model_serializer, model_validator

from trainwright_trainer.contract.base import Contract, Count, ListOf


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


class Llama(Contract):
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
    def parameters(self) -> int:
        """Embedding, per layer q/k/v/o and gate/up/down projections with two norms, final norm, and the head if untied."""
        head = self.hidden_size // self.num_attention_heads
        attention = 2 * self.hidden_size * self.hidden_size + 2 * self.hidden_size * head * self.key_value_heads
        layer = attention + 3 * self.hidden_size * self.intermediate_size + 2 * self.hidden_size
        embeddings = self.vocab_size * self.hidden_size * (1 if self.tie_word_embeddings else 2)
        return embeddings + self.num_hidden_layers * layer + self.hidden_size


class ViT(Contract):
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
    def parameters(self) -> int:
        """Patch and position embeddings, per layer q/k/v/o and a two-layer MLP with biases and two norms, norm, classifier."""
        hidden, inner = self.hidden_size, self.intermediate_size
        embeddings = hidden * (self.num_channels * self.patch_size**2 + 1) + hidden * (self.sequence_length + 1)
        layer = 4 * (hidden * hidden + hidden) + (hidden * inner + inner) + (inner * hidden + hidden) + 4 * hidden
        return embeddings + self.num_hidden_layers * layer + 2 * hidden + hidden * self.num_labels + self.num_labels


class ResNet(Contract):
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
    def parameters(self) -> int:
        """Stem, blocks (convolutions without bias, each with a batch norm's scale and shift) and the classifier."""

        def conv(inputs: int, outputs: int, kernel: int) -> int:
            return inputs * outputs * kernel * kernel + 2 * outputs

        total, inputs = conv(self.num_channels, self.embedding_size, 7), self.embedding_size
        for stage, (width, depth) in enumerate(zip(self.hidden_sizes, self.depths, strict=True)):
            for block in range(depth):
                stride = 2 if block == 0 and stage > 0 else 1
                if self.layer_type == "bottleneck":
                    inner = width // 4
                    total += conv(inputs, inner, 1) + conv(inner, inner, 3) + conv(inner, width, 1)
                else:
                    total += conv(inputs, width, 3) + conv(width, width, 3)
                if inputs != width or stride != 1:
                    total += conv(inputs, width, 1)
                inputs = width
        return total + inputs * self.num_labels + self.num_labels


class Bert(Contract):
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
    def parameters(self) -> int:
        """Embeddings with a norm, per layer as in :class:`ViT`, and the head.

        The masked-language-model head is a dense layer with a norm and a bias for each token; its weights are the
        word embeddings. A classifier is a pooler and a linear layer.
        """
        hidden, inner = self.hidden_size, self.intermediate_size
        embeddings = (self.vocab_size + self.max_position_embeddings + self.type_vocab_size) * hidden + 2 * hidden
        layer = 4 * (hidden * hidden + hidden) + (hidden * inner + inner) + (inner * hidden + hidden) + 4 * hidden
        dense = hidden * hidden + hidden
        if self.num_labels is None:
            head = dense + 2 * hidden + self.vocab_size
        else:
            head = dense + hidden * self.num_labels + self.num_labels
        return embeddings + self.num_hidden_layers * layer + head


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


def _check_heads(hidden_size: int, heads: int) -> None:
    if hidden_size % heads:
        raise ValueError(f"hidden_size {hidden_size} is not a multiple of num_attention_heads {heads}")
