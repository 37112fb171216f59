"""Model architectures a run can name: typed subsets of ``transformers`` configurations, and their parameter counts.

Every field is written into the run's specification, so a new default in ``transformers`` changes no model.
Parameter counts are derived from the layer shapes and tested against the real modules.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, model_validator

from trainwright_trainer.contract.base import Contract, Count


class Llama(Contract):
    """A Llama decoder with an untied or tied language-model head."""

    architecture: Literal["llama"]
    vocab_size: Count
    hidden_size: Count
    intermediate_size: Count
    num_hidden_layers: Count
    num_attention_heads: Count
    num_key_value_heads: Count | None = None
    """Grouped-query attention; default: as many as attention heads."""
    max_position_embeddings: Count = 4096
    rope_theta: float = Field(default=10000.0, gt=0, le=1e12)
    tie_word_embeddings: bool = False

    @model_validator(mode="after")
    def _heads_divide(self) -> Self:
        if self.hidden_size % self.num_attention_heads:
            heads = self.num_attention_heads
            raise ValueError(f"hidden_size {self.hidden_size} is not a multiple of num_attention_heads {heads}")
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

    architecture: Literal["vit"]
    image_size: Count
    patch_size: Count
    num_channels: Count = 3
    hidden_size: Count
    intermediate_size: Count
    num_hidden_layers: Count
    num_attention_heads: Count
    num_labels: Count
    dropout: float = Field(default=0.0, ge=0, lt=1)

    @model_validator(mode="after")
    def _patches_fit(self) -> Self:
        if self.image_size % self.patch_size:
            raise ValueError(f"image_size {self.image_size} is not a multiple of patch_size {self.patch_size}")
        if self.hidden_size % self.num_attention_heads:
            heads = self.num_attention_heads
            raise ValueError(f"hidden_size {self.hidden_size} is not a multiple of num_attention_heads {heads}")
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
    """A ResNet with bottleneck or basic blocks. It keeps batch statistics, so accumulation changes its numbers."""

    architecture: Literal["resnet"]
    num_channels: Count = 3
    embedding_size: Count = 64
    hidden_sizes: Annotated[tuple[Count, ...], Field(min_length=1, max_length=8)] = (256, 512, 1024, 2048)
    depths: Annotated[tuple[Annotated[int, Field(ge=1, le=1000)], ...], Field(min_length=1, max_length=8)] = (3, 4, 6, 3)
    layer_type: Literal["basic", "bottleneck"] = "bottleneck"
    image_size: Count = 224
    num_labels: Count

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


class TransformersModel(Contract):
    """Any other architecture that ``transformers`` can build from a configuration, without remote code.

    Its size is not known at compile time unless ``parameters`` states it.
    """

    architecture: Literal["transformers"]
    model_type: str = Field(min_length=1, max_length=64, pattern=r"^[a-z0-9_\-]+$")
    config: dict[str, JsonValue] = Field(default_factory=dict)
    parameters: Count | None = None


Model = Annotated[Llama | ViT | ResNet | TransformersModel, Field(discriminator="architecture")]
