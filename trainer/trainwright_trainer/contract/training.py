"""What a rank trains: task, model, data, optimizer, schedule, batch, precision and checkpoints."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from trainwright_trainer.contract.base import Contract, Count, Index, NonNegative, Positive, Seconds
from trainwright_trainer.contract.data import (
    BYTE_VOCABULARY,
    DIGITS_CLASSES,
    DIGITS_IMAGE_SIZE,
    Data,
    Digits,
    PythonSource,
)
from trainwright_trainer.contract.model import Llama, Model, ResNet, ViT

Task = Literal["image-classification", "causal-lm"]
Precision = Literal["fp32", "bf16"]
Schedule = Literal["constant", "linear", "cosine"]


class AdamW(Contract):
    kind: Literal["adamw"]
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = (0.9, 0.95)
    eps: Positive = 1e-8
    weight_decay: NonNegative = 0.01


class SGD(Contract):
    kind: Literal["sgd"]
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    nesterov: bool = False
    weight_decay: NonNegative = 0.0

    @model_validator(mode="after")
    def _nesterov_needs_momentum(self) -> Self:
        if self.nesterov and not self.momentum:
            raise ValueError("nesterov needs a momentum above 0")
        return self


Optimizer = Annotated[AdamW | SGD, Field(discriminator="kind")]


class LearningRate(Contract):
    """Peak rate and its schedule. Warm-up is counted in samples, so it means the same at any batch."""

    peak: Positive
    schedule: Schedule = "cosine"
    warmup_samples: Index = 0
    final_fraction: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Rate at the end as a share of the peak (linear and cosine)."""


class Batch(Contract):
    """Samples: per rank and forward pass, and forward passes per optimizer step."""

    micro: Count
    accumulation: Count = 1


class Duration(Contract):
    """How long to train: exactly one of the two."""

    epochs: Annotated[float, Field(gt=0, le=1e6)] | None = None
    steps: Count | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if (self.epochs is None) == (self.steps is None):
            raise ValueError("give exactly one of epochs and steps")
        return self


class Checkpoints(Contract):
    """Where checkpoints live and how often they are taken; one is always taken at the end."""

    directory: str
    """The lineage's own directory on the checkpoint volume: ``<mount>/<run>/<lineage>``."""
    every_steps: Count | None = None
    every_seconds: Seconds | None = None
    keep: Annotated[int, Field(ge=2, le=1000)] = 3
    """Committed checkpoints kept; the one before the newest is always among them."""
    resume: Literal["auto", "required", "never"] = "auto"


class Evaluation(Contract):
    every_steps: Count | None = None
    """Besides the evaluation at the end of training."""
    max_batches: Count | None = None


class Training(Contract):
    """The work of ``kind: trainer``."""

    kind: Literal["trainer"] = "trainer"
    engine: Literal["ddp"]
    task: Task
    model: Model
    data: Data
    batch: Batch
    optimizer: Optimizer
    learning_rate: LearningRate
    clip_norm: Positive | None = None
    """Largest global gradient norm; None does not clip."""
    precision: Precision = "bf16"
    duration: Duration
    seed: Index = 0
    evaluation: Evaluation = Field(default_factory=Evaluation)
    checkpoints: Checkpoints
    log_every_steps: Count = 10

    @model_validator(mode="after")
    def _parts_agree(self) -> Self:
        for problem in disagreements(self.task, self.model, self.data):
            raise ValueError(problem)
        return self


def disagreements(task: Task, model: Model, data: Data) -> list[str]:
    """What does not fit between task, model and data, in sentences that name the key to change."""
    problems = []
    if task == "image-classification":
        if not isinstance(data, Digits):
            problems.append(
                f"task image-classification cannot read data source {data.source}; use digits, or task causal-lm"
            )
        elif isinstance(model, Llama):
            problems.append("architecture llama is a language model; use vit or resnet for task image-classification")
        elif isinstance(model, ViT | ResNet):
            if model.num_channels != 1:
                problems.append(f"digits are grey images: set model.num_channels to 1 instead of {model.num_channels}")
            if model.image_size != DIGITS_IMAGE_SIZE:
                problems.append(f"digits are 8 x 8 pixels: set model.image_size to 8 instead of {model.image_size}")
            if model.num_labels != DIGITS_CLASSES:
                problems.append(f"digits have 10 classes: set model.num_labels to 10 instead of {model.num_labels}")
    else:
        if not isinstance(data, PythonSource):
            problems.append(
                f"task causal-lm cannot read data source {data.source}; use python-stdlib, or task image-classification"
            )
        elif isinstance(model, ViT | ResNet):
            problems.append(f"architecture {model.architecture} reads images; use llama for task causal-lm")
        elif isinstance(model, Llama):
            if model.vocab_size < data.vocabulary:
                problems.append(f"model.vocab_size {model.vocab_size} is below the data's vocabulary of {data.vocabulary}")
            if model.max_position_embeddings < data.sequence_length:
                problems.append(
                    f"model.max_position_embeddings {model.max_position_embeddings} is shorter than "
                    f"data.sequence_length {data.sequence_length}"
                )
    if isinstance(data, PythonSource) and data.tokenizer == "bytes" and data.vocabulary != BYTE_VOCABULARY:
        problems.append(f"tokenizer bytes has a vocabulary of 256, not {data.vocabulary}; remove vocabulary, or use bpe")
    return problems
