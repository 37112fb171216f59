"""The work of ``kind: trainer``: task, data, model, optimizer, schedule, batch and checkpoints, and what fits together."""

import fractions
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, ClassVar, Literal, NamedTuple, Self, get_args

from pydantic import Field, model_validator

from trainwright_trainer.contract.base import (
    Contract,
    Count,
    Fraction,
    Index,
    ListOf,
    MountPath,
    NonNegative,
    PlacedError,
    Positive,
    Seconds,
    Specified,
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
from trainwright_trainer.contract.engine import FSDP2, DDPSettings, DeepSpeed, EngineName, cannot_build, unread
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


class RateShape(Contract):
    """How the rate goes over the run."""

    schedule: Schedule = "cosine"
    """Shape of the rate after warm-up; `wsd` stays at the peak and falls at the end."""
    decay_fraction: Fraction | None = None
    """Share of the run over which the rate of `wsd` falls; default: 0.2."""

    @model_validator(mode="after")
    def _only_wsd_has_a_decay_of_its_own(self) -> Self:
        if self.decay_fraction is not None and self.schedule != "wsd":
            message = f"decay_fraction is for schedule wsd, and schedule is {self.schedule}; remove it, or write wsd"
            raise PlacedError(message, "decay_fraction")
        return self


class LearningRate(RateShape):
    """Peak rate and its schedule. Warm-up is counted in samples, so it means the same at any batch."""

    before: ClassVar = {"schedule": ("peak",), "decay_fraction": ("warmup_samples", "final_fraction")}

    peak: Positive
    warmup_samples: Index = 0
    final_fraction: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Rate at the end as a share of the peak (all but constant)."""
    scaling: Scaling | None = None
    """How the rate follows the effective batch where ``batch.keep: micro`` lets it move; ``peak`` is its value at
    ``batch.effective``."""


class Batch(Contract):
    """Samples per rank and forward pass, and forward passes per optimizer step."""

    micro: Annotated[int, Field(ge=1, le=1_000_000)]
    """Samples of one rank in one forward pass."""
    accumulation: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    """Forward passes for each optimizer step."""


class WorldBatch(Batch):
    """The batch at the number of nodes that ``world.nodes`` states, and what stays at another."""

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
    """Passes over the data; or `steps`."""
    steps: Count | None = None
    """Optimizer steps; or `epochs`."""

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if (self.epochs is None) == (self.steps is None):
            raise ValueError("epochs and steps are both given, or none of them; give exactly one")
        return self

    def target_samples(self, dataset_size: int, global_batch: int) -> int:
        """Samples after which training is done; the last optimizer step is the first one that reaches it."""
        if self.epochs is not None:  # 1.1 of 50,000 are 55,000, and not one more
            return max(1, math.ceil(fractions.Fraction(str(self.epochs)) * dataset_size))
        return (self.steps or 0) * global_batch


class CheckpointSettings(Contract):
    """What a run states of its checkpoints, and its specification has as it is."""

    every_steps: Annotated[int, Field(ge=1, le=2**40)] | None = None
    """Optimizer steps between checkpoints."""
    keep: Annotated[int, Field(ge=2, le=1000)] = 3
    """Number of committed checkpoints to keep; older ones are removed."""
    resume: Literal["auto", "required", "never"] = "auto"
    """`auto` starts at step 0 if there is no checkpoint, `required` fails in that case, `never` ignores checkpoints of earlier
    identities.
    """
    save: Literal["background", "blocking"] | None = None
    """`background` continues training while a checkpoint is written from a copy in host memory; `blocking` needs no copy.
    Default: in the background if the engine supports it.
    """
    # A volume that comes back within three intervals costs nothing; one that does not loses as much as it would otherwise.
    failed_saves: Annotated[int, Field(ge=0, le=1000)] = 3
    """How many periodic saves in a row may fail while training continues. The last save of a run must succeed."""


class Checkpoints(CheckpointSettings, Specified):
    """Where checkpoints live and how often they are taken; one is always taken at the end, and that save always blocks."""

    before: ClassVar = {"every_steps": ("directory",), "keep": ("every_seconds",)}
    always: ClassVar = frozenset(("keep", "resume"))

    directory: str
    """The lineage's own directory on the checkpoint volume: ``<mount>/<run>/<lineage>``."""
    every_seconds: Seconds | None = None


class Evaluation(Contract):
    every_steps: Count | None = None
    """Steps between evaluations; there is always one at the end of training."""
    max_batches: Count | None = None
    """Batches of each rank; default: all of the held-out data."""


class TrainingSettings(Contract):
    """What a run states of training, and its specification has as it is. A setting of the trainer is one field here, with its
    text: run file, plan, specification, JSON Schema and docs read it.
    """

    task: TaskName
    """What to learn."""
    model: Model
    """The architecture and its sizes."""
    initial_weights: MountPath | None = None
    """Directory of safetensors to start from, in a mount; default: random weights."""
    data: Data
    """The training data."""
    optimizer: Optimizer = Field(default_factory=lambda: AdamW.model_construct(kind="adamw"))
    """Default: adamw."""
    clip_norm: Annotated[float, Field(gt=0, le=1e6)] | None = 1.0
    """Largest global gradient norm; null turns clipping off."""
    skip_non_finite: Count | None = None
    """How many steps in a row may be skipped because loss or gradients are not finite; default: the first one ends the run."""
    # A few broken files in a million are usual; more are a broken copy of the data.
    skip_unreadable: Annotated[int, Field(ge=0, le=10**6)] = 10
    """How many images that cannot be decoded one rank may skip; one more ends the run (data source `image-folder`)."""
    precision: Precision = "bf16"
    """Of forward and backward pass; weights and optimizer stay fp32."""
    gradient_reduction: Precision | None = None
    """Data type in which gradients are summed over ranks; default: the engine's own."""
    activation_checkpointing: bool = False
    """Keep only the input of each block for the backward pass, and recompute the rest: less memory, a third more computation."""
    compile: bool = False
    """Compile each block of the model: a slower first step, and faster ones after it."""
    deterministic: bool = False
    """Use kernels on GPUs that give the same bits each time: slower, for a resume with [the same bits](verify-resume.md#on-gpus).
    CPUs always do."""
    cudnn_benchmark: bool = False
    """Let cuDNN time its convolutions for each shape and use the fastest; for models with convolutions."""
    seed: Index = 0
    """Of weights, dropout and data order."""
    evaluation: Evaluation = Field(default_factory=Evaluation.model_construct)
    """How often to look at held-out data; always at the end."""
    metrics: ListOf[Sink] = ()
    """Where rank 0 writes the run's metrics, in addition to `/metrics` and the log."""

    @model_validator(mode="after")
    def _settings_agree(self) -> Self:
        if self.cudnn_benchmark and self.deterministic:
            message = "cudnn_benchmark picks kernels by a stopwatch, other ones in each attempt; remove it, or deterministic"
            raise PlacedError(message, "cudnn_benchmark")
        if self.cudnn_benchmark and isinstance(self.model, Llama | Bert):
            message = f"architecture {self.model.architecture} has no convolutions for cudnn_benchmark to time; remove it"
            raise PlacedError(message, "cudnn_benchmark")
        for problem in (*disagreements(self.task, self.model, self.data), *sink_disagreements(self.metrics)):
            raise ValueError(problem)
        return self


class Training(TrainingSettings, Specified):
    """The work of ``kind: trainer``: what the run states, and what the plan makes of the rest."""

    before: ClassVar = {
        "task": ("kind", "engine", "deepspeed", "fsdp2", "ddp"), "optimizer": ("batch",), "clip_norm": ("learning_rate",),
        "seed": ("duration",), "metrics": ("checkpoints", "log_every_steps"),
    }
    always: ClassVar = frozenset(("kind", "precision", "activation_checkpointing", "seed", "log_every_steps"))

    kind: Literal["trainer"] = "trainer"
    engine: EngineName
    deepspeed: DeepSpeed | None = None
    fsdp2: FSDP2 | None = None
    """Default of engine ``fsdp2``: the defaults of its settings."""
    ddp: DDPSettings | None = None
    """Default of engine ``ddp``: the defaults of its settings."""
    batch: WorldBatch
    learning_rate: LearningRate
    clip_norm: Annotated[float, Field(gt=0, le=1e6)] | None = None  # null is left out of a file, so nothing means null here
    duration: Duration
    checkpoints: Checkpoints
    log_every_steps: Count = 10

    @model_validator(mode="after")
    def _parts_agree(self) -> Self:
        others = [name for name in get_args(EngineName) if name != self.engine and getattr(self, name, None) is not None]
        problems = [f"engine {self.engine} does not read {name}; remove it, or use engine {name}" for name in others]
        if self.engine == "deepspeed" and self.deepspeed is None:
            problems.append("engine deepspeed needs deepspeed.config")
        if problem := cannot_build(self.engine, self.model):
            problems.append(problem)
        problems += [f"engine {self.engine} does not read {setting}; {instead}" for setting, instead in unread(self.engine, self)]
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
