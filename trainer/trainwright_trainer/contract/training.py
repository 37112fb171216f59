"""The work of ``kind: trainer``: task, data, model, optimizer, schedule, batch and checkpoints, and what fits together."""

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from trainwright_trainer.contract.base import (
    AbsolutePath,
    Contract,
    Count,
    Fraction,
    Index,
    ListOf,
    NonNegative,
    Positive,
    Seconds,
)
from trainwright_trainer.contract.data import (
    BYTE_VOCABULARY,
    DIGITS_CLASSES,
    DIGITS_IMAGE_SIZE,
    UINT16_TOKENS,
    Data,
    Digits,
    HFDataset,
    ImageFolder,
    PythonSource,
    TokenFiles,
)
from trainwright_trainer.contract.engine import DDP, FSDP2, DeepSpeed, EngineName, engine_disagreements, unread
from trainwright_trainer.contract.metrics import Sink, sink_disagreements
from trainwright_trainer.contract.model import Bert, Llama, Model, ResNet, ViT

TaskName = Literal["image-classification", "causal-lm", "masked-lm", "text-classification"]
Precision = Literal["fp32", "bf16", "fp16"]
PRECISION_BYTES: dict[Precision, int] = {"fp32": 4, "bf16": 2, "fp16": 2}
"""Bytes of one element."""
Schedule = Literal["constant", "linear", "cosine", "wsd"]
Scaling = Literal["none", "linear", "square_root"]


class AdamW(Contract):
    kind: Literal["adamw"] = "adamw"
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = (0.9, 0.95)
    """Decay of the averages of the gradient and of its square."""
    eps: Positive = 1e-8
    """Added to the root of the averaged square, against division by zero."""
    weight_decay: NonNegative = 0.01
    """Decoupled from the gradient (Loshchilov and Hutter 2019, arXiv:1711.05101)."""

    @property
    def state_bytes(self) -> int:
        """Two moments of each parameter, in fp32."""
        return 8


class SGD(Contract):
    kind: Literal["sgd"] = "sgd"
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """Share of the last update that is kept; 0 turns it off."""
    nesterov: bool = False
    """Look ahead by the momentum before the gradient is taken."""
    weight_decay: NonNegative = 0.0
    """Added to the gradient, as an L2 penalty."""

    @model_validator(mode="after")
    def _nesterov_needs_momentum(self) -> Self:
        if self.nesterov and not self.momentum:
            raise ValueError("nesterov needs a momentum above 0")
        return self

    @property
    def state_bytes(self) -> int:
        """A momentum of each parameter, in fp32."""
        return 4 if self.momentum else 0


Optimizer = Annotated[AdamW | SGD, Field(discriminator="kind")]


class LearningRate(Contract):
    """Peak rate and its schedule. Warm-up is counted in samples, so it means the same at any batch."""

    peak: Positive
    schedule: Schedule = "cosine"
    warmup_samples: Index = 0
    final_fraction: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Rate at the end as a share of the peak (all but constant)."""
    decay_fraction: Fraction | None = None
    """Share of the run over which the rate falls at its end (wsd: warm up, stay, decay). Default: 0.2."""
    scaling: Scaling | None = None
    """How the rate follows the effective batch where ``batch.keep: micro`` lets it move; ``peak`` is its value at
    ``batch.effective``."""

    @model_validator(mode="after")
    def _only_wsd_has_a_decay_of_its_own(self) -> Self:
        if self.decay_fraction is not None and self.schedule != "wsd":
            raise ValueError(f"decay_fraction is for schedule wsd, and schedule is {self.schedule}; remove it, or write wsd")
        return self


class Batch(Contract):
    """Samples: per rank and forward pass, and forward passes per optimizer step."""

    micro: Count
    accumulation: Count = 1
    """At the number of nodes that ``world.nodes`` states."""
    keep: Literal["effective", "micro"] | None = None
    """What stays when the number of ranks changes (c10d only).

    ``effective``: each step sees exactly ``effective`` samples at every size; accumulation follows, and the last forward pass of
    a step may be smaller. ``micro``: micro batch and accumulation stay, and the effective batch moves with the ranks.
    """
    effective: Count | None = None
    """Samples of one step at ``world.nodes``: micro x accumulation x replicas. With ``keep`` only."""

    @model_validator(mode="after")
    def _keep_needs_a_base(self) -> Self:
        if (self.keep is None) != (self.effective is None):
            raise ValueError("give both of keep and effective, or neither")
        return self

    def samples(self, replicas: int) -> int:
        """Of one step, by the ``replicas`` of ``world.nodes`` together; ``effective`` says the same."""
        return self.micro * self.accumulation * replicas


class Duration(Contract):
    """How long to train: exactly one of the two."""

    epochs: Annotated[float, Field(gt=0, le=1e6)] | None = None
    steps: Count | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if (self.epochs is None) == (self.steps is None):
            raise ValueError("epochs and steps are both given, or none of them; give exactly one")
        return self


DEFAULT_FAILED_SAVES = 3
"""A volume that comes back within three intervals costs nothing then; one that does not loses as much as it would otherwise."""


class Checkpoints(Contract):
    """Where checkpoints live and how often they are taken; one is always taken at the end."""

    directory: str
    """The lineage's own directory on the checkpoint volume: ``<mount>/<run>/<lineage>``."""
    every_steps: Count | None = None
    every_seconds: Seconds | None = None
    keep: Annotated[int, Field(ge=2, le=1000)] = 3
    """Committed checkpoints kept; the one before the newest is always among them."""
    resume: Literal["auto", "required", "never"] = "auto"
    save: Literal["background", "blocking"] | None = None
    """Whether training goes on while a periodic checkpoint is written, from a copy in the host's memory. Default: it does where
    the engine can; a save on the way out always blocks."""
    failed_saves: Index | None = None
    """Periodic saves in a row that may fail while training goes on; one more ends the attempt. Default: 3. The last save of a
    run must succeed."""


class Evaluation(Contract):
    every_steps: Count | None = None
    """Steps between evaluations; there is always one at the end of training."""
    max_batches: Count | None = None
    """Batches of each rank; default: all of the held-out data."""


DEFAULT_SKIP_UNREADABLE = 10
"""A few broken files in a million are usual; more are a broken copy of the data."""


class Training(Contract):
    """The work of ``kind: trainer``."""

    kind: Literal["trainer"] = "trainer"
    engine: EngineName
    deepspeed: DeepSpeed | None = None
    fsdp2: FSDP2 | None = None
    """Default of engine ``fsdp2``: the defaults of its settings."""
    ddp: DDP | None = None
    """Default of engine ``ddp``: the defaults of its settings."""
    task: TaskName
    model: Model
    initial_weights: AbsolutePath | None = None
    """Directory of safetensors as ``transformers`` names them, read where training starts at step 0. Default: random weights."""
    data: Data
    batch: Batch
    optimizer: Optimizer
    learning_rate: LearningRate
    clip_norm: Positive | None = None
    """Largest global gradient norm; None does not clip."""
    skip_non_finite: Count | None = None
    """Steps in a row that may be left out because loss or gradients are not finite. Default: the first one ends the run."""
    skip_unreadable: Index | None = None
    """Images that one rank may leave out because they cannot be decoded; one more ends the run. Default: 10."""
    precision: Precision = "bf16"
    """Of forward and backward pass."""
    gradient_reduction: Precision | None = None
    """Data type in which gradients are summed over ranks. Default: the engine's own."""
    activation_checkpointing: bool = False
    """Keep only the input of each block for the backward pass, and compute the rest of it again there."""
    compile: bool | None = None
    """Compile each block (``torch.compile``): a slower first step, and faster ones after it. Default: no."""
    deterministic: bool | None = None
    """Use kernels on GPUs whose result does not depend on the order of threads; CPUs always do. Default: the fast ones."""
    cudnn_benchmark: bool | None = None
    """Let cuDNN time its convolutions for each shape, and use the fastest. Default: no."""
    duration: Duration
    seed: Index = 0
    evaluation: Evaluation = Field(default_factory=Evaluation)
    checkpoints: Checkpoints
    log_every_steps: Count = 10
    metrics: ListOf[Sink] | None = None
    """Where metrics go, beside ``/metrics`` and the log. Default: nowhere else."""

    @property
    def unreadable_images(self) -> int:
        """``skip_unreadable``, or its default."""
        return DEFAULT_SKIP_UNREADABLE if self.skip_unreadable is None else self.skip_unreadable

    @model_validator(mode="after")
    def _parts_agree(self) -> Self:
        problems = disagreements(self.task, self.model, self.data)
        problems += engine_disagreements(self.engine, self.model, self.deepspeed, self.fsdp2, self.ddp)
        problems += [f"engine {self.engine} does not read {setting}; {instead}" for setting, instead in unread(self.engine, self)]
        problems += sink_disagreements(self.metrics or ())
        problems += kernel_disagreements(self.model, bool(self.deterministic), bool(self.cudnn_benchmark))
        if self.learning_rate.scaling is not None and self.batch.keep != "micro":
            problems.append("learning_rate.scaling is for a batch that moves; remove it, or set batch.keep to micro")
        for problem in problems:
            raise ValueError(problem)
        return self


class _Kind(NamedTuple):
    sources: tuple[str, ...]
    architectures: tuple[str, ...]


_KINDS: dict[TaskName, _Kind] = {
    "image-classification": _Kind(("digits", "image-folder"), ("vit", "resnet", "transformers")),
    "causal-lm": _Kind(("python-stdlib", "tokens", "hf-dataset"), ("llama", "transformers")),
    "masked-lm": _Kind(("python-stdlib", "tokens", "hf-dataset"), ("bert", "transformers")),
    "text-classification": _Kind(("hf-dataset",), ("bert", "transformers")),
}


def disagreements(task: TaskName, model: Model, data: Data) -> list[str]:
    """What does not fit between task, model and data, in sentences that name the key to change."""
    return [*_misfits(task, model, data), *_tokenizer(data)]


def kernel_disagreements(model: Model, deterministic: bool, cudnn_benchmark: bool) -> Iterator[str]:
    """Settings of kernels that exclude each other, or that a model has no use for, in sentences that name the key to change."""
    if cudnn_benchmark and deterministic:
        yield "cudnn_benchmark picks kernels by a stopwatch, other ones in each attempt; remove it, or deterministic"
    if cudnn_benchmark and isinstance(model, Llama | Bert):
        yield f"architecture {model.architecture} has no convolutions for cudnn_benchmark to time; remove it"


def _misfits(task: TaskName, model: Model, data: Data) -> Iterator[str]:
    kind = _KINDS[task]
    if data.source not in kind.sources:
        others = _tasks(lambda other: data.source in other.sources)
        yield f"task {task} cannot read data source {data.source}; use {_or(kind.sources)}, or task {_or(others)}"
    elif model.architecture not in kind.architectures:
        others = _tasks(lambda other: model.architecture in other.architectures)
        reads = "reads images" if isinstance(model, ViT | ResNet) else "is a language model"
        yield (
            f"architecture {model.architecture} {reads} and cannot learn task {task}; use {_or(kind.architectures)}, "
            f"or task {_or(others)}"
        )
    elif isinstance(data, Digits | ImageFolder):
        yield from _images(model, data)
    else:
        yield from _columns(task, data)
        yield from _head(task, model, data)
        yield from _sizes(task, model, data)


def _tasks(fits: Callable[[_Kind], bool]) -> list[str]:
    return [task for task, kind in _KINDS.items() if fits(kind)]


def _or(words: Sequence[str]) -> str:
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _images(model: Model, data: Digits | ImageFolder) -> Iterator[str]:
    if not isinstance(model, ViT | ResNet):
        return
    if isinstance(data, Digits):
        wanted = [
            ("num_channels", 1, "digits are grey images"),
            ("image_size", DIGITS_IMAGE_SIZE, "digits are 8 x 8 pixels"),
            ("num_labels", DIGITS_CLASSES, "digits have 10 classes"),
        ]
    else:
        wanted = [
            ("num_channels", data.channels, f"data.channels is {data.channels}"),
            ("image_size", data.image_size, f"data.image_size is {data.image_size}"),
            ("num_labels", data.classes, f"data.classes is {data.classes}"),
        ]
    for key, value, reason in wanted:
        if getattr(model, key) != value:
            yield f"{reason}: set model.{key} to {value} instead of {getattr(model, key)}"


def _columns(task: TaskName, data: PythonSource | TokenFiles | HFDataset) -> Iterator[str]:
    if not isinstance(data, HFDataset):
        return
    for key in ("label_column", "classes"):
        found = getattr(data, key)
        if task == "text-classification" and found is None:
            yield f"task text-classification needs data.{key}"
        elif task != "text-classification" and found is not None:
            yield f"task {task} reads no labels; remove data.{key}"
    if task == "causal-lm" and len(data.text_columns) > 1:
        yield "task causal-lm reads one column of text; name one in data.text_columns"


def _head(task: TaskName, model: Model, data: PythonSource | TokenFiles | HFDataset) -> Iterator[str]:
    if not isinstance(model, Bert):
        return
    if task == "masked-lm" and model.num_labels is not None:
        yield "task masked-lm predicts tokens; remove model.num_labels"
    elif isinstance(data, HFDataset) and data.classes is not None and model.num_labels != data.classes:
        found = "leaving it out" if model.num_labels is None else str(model.num_labels)
        yield f"data.classes is {data.classes}: set model.num_labels to {data.classes} instead of {found}"


def _sizes(task: TaskName, model: Model, data: PythonSource | TokenFiles | HFDataset) -> Iterator[str]:
    vocabulary = data.vocabulary
    masks_itself = task == "masked-lm" and not isinstance(data, HFDataset)  # a tokenizer for masked-lm has a token for the mask
    if masks_itself and vocabulary is None:
        yield "task masked-lm takes the first id above the data's tokens as its mask; add data.vocabulary"
    if not isinstance(model, Llama | Bert):
        return
    if vocabulary is not None and model.vocab_size < vocabulary:
        yield f"model.vocab_size {model.vocab_size} is below the data's vocabulary of {vocabulary}"
    elif masks_itself and model.vocab_size == vocabulary:
        yield f"task masked-lm needs one token more than the data's {vocabulary} for its mask; raise model.vocab_size"
    if model.max_position_embeddings < data.sequence_length:
        key = "max_length" if isinstance(data, HFDataset) else "sequence_length"
        yield f"model.max_position_embeddings {model.max_position_embeddings} is shorter than data.{key} {data.sequence_length}"


def _tokenizer(data: Data) -> Iterator[str]:
    if isinstance(data, PythonSource) and data.tokenizer == "bytes" and data.vocabulary != BYTE_VOCABULARY:
        yield f"tokenizer bytes has a vocabulary of 256, not {data.vocabulary}; remove vocabulary, or use bpe"
    if isinstance(data, TokenFiles) and data.dtype == "uint16" and (data.vocabulary or 0) > UINT16_TOKENS:
        yield f"dtype uint16 holds {UINT16_TOKENS:,} tokens and data.vocabulary is {data.vocabulary:,}; use uint32"
