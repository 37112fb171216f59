"""Kinds of work, each with an honest set of guarantees."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, model_validator
from pydantic_core import PydanticCustomError

from trainwright.model import Model
from trainwright_trainer.contract.base import AbsolutePath, ListOf, MountPath, PlacedError
from trainwright_trainer.contract.boosting import BoostingSettings
from trainwright_trainer.contract.model import Bert, Llama, ResNet, ViT
from trainwright_trainer.contract.training import Duration, Optimizer, Precision, RateShape, TrainingSettings

Argument = Annotated[str, Field(max_length=131_072)]


def _as_a_tuple(words: object) -> object:
    """A command line is what people write first, and in a program of their own they see pydantic's words, which say no remedy.

    What a validator in Python hands on is Python, of which strict reading takes no list for a tuple.
    """
    if isinstance(words, str):
        said = "Input should be a list of words, not a text; write {words}"
        raise PydanticCustomError("tuple_type", said, {"words": str(words.split())})
    return tuple(words) if isinstance(words, list) else words


def _can_start(command: tuple[str, ...]) -> tuple[str, ...]:
    if not command[0]:
        raise ValueError("the first word is empty; name the program")
    return _can_be_given(command)


def _can_be_given(words: tuple[str, ...]) -> tuple[str, ...]:
    if any("\0" in word for word in words):
        raise ValueError("a word holds a NUL character, and no program can be given one; remove it")
    return words


_Words = Annotated[ListOf[Argument], BeforeValidator(_as_a_tuple)]
Command = Annotated[_Words, Field(min_length=1, max_length=1024), AfterValidator(_can_start)]
Arguments = Annotated[_Words, Field(max_length=1024), AfterValidator(_can_be_given)]


class TrainerWorkload(TrainingSettings, RateShape, Duration):
    """Our trainer, with all guarantees."""

    before: ClassVar = {
        "task": ("kind",), "deterministic": ("compile_cache",),
        "seed": ("expandable_segments", "schedule", "decay_fraction", "epochs", "steps"),
    }

    kind: Literal["trainer"] = "trainer"
    """Our trainer."""
    compile_cache: MountPath | None = None
    """Folder in a mount for what `compile` generates, so that later attempts and other runs need not compile it again. Whoever
    can write there decides what these pods execute."""
    expandable_segments: bool = False
    """Let torch's allocator grow its segments of GPU memory, which fragments less where sizes change."""

    @model_validator(mode="after")
    def _cache_has_a_use(self) -> Self:
        if self.compile_cache and not self.compile:
            raise PlacedError("compile_cache is for what compile generates; remove it, or write compile: true", "compile_cache")
        return self


class BoostingWorkload(BoostingSettings):
    """Our trainer's gradient-boosted trees: XGBoost on a table, one round a step."""

    before: ClassVar = {"booster": ("kind",)}

    kind: Literal["boosting"] = "boosting"
    """Gradient-boosted trees."""


class OtherModel(Model):
    """A model of another architecture, by its size."""

    architecture: Literal["other"] = "other"
    """None of those that we know."""
    parameters: Annotated[int, Field(ge=1, le=2**53)]
    """Number of parameters."""


class ScriptTraining(Model):
    """What your program trains, and how: only the plan reads it. It estimates memory, traffic and scaling, and checks them."""

    model: Annotated[Llama | Bert | ViT | ResNet | OtherModel, Field(discriminator="architecture")]
    """The architecture and its sizes, or `other` with its number of parameters."""
    precision: Precision
    """Of forward and backward pass."""
    optimizer: Optimizer
    """By its memory for each parameter."""
    sequence_length: Annotated[int, Field(ge=1, le=2**31)] | None = None
    """Tokens of one sample, if samples are sequences."""
    gradient_reduction: Precision | None = None
    """Data type in which gradients are summed over ranks; default: the engine's own."""
    activation_checkpointing: bool = False
    """Whether only the input of each block is kept for the backward pass."""


class ScriptWorkload(Model):
    """Your program, one process per rank, under our supervisor."""

    kind: Literal["script"] = "script"
    """Your program under our supervisor."""
    command: Command
    """Program and arguments, each a list element; one process per rank."""
    working_dir: AbsolutePath | None = None
    """Directory in which the program starts. Default: that of the image."""
    packages: ListOf[Annotated[str, Field(pattern=r"^[A-Za-z0-9][^\x00-\x1f\x7f]*$", max_length=4096,
                                          examples=["einops==0.8.1 --hash=sha256:…"])]] = ()
    """What pip installs before the program starts, beside what the image has: lines of a requirements file, each with its
    version and its hashes, dependencies too. They come from the profile's `package_index`, as wheels alone.
    """
    protocol: bool = False
    """Whether the program uses the trainer's exit codes; otherwise any failure means "user failure"."""
    config: dict[str, JsonValue] | None = None
    """Settings of your program, which it reads by `run.config` of `trainwright_trainer`, as a dataclass or a model of its own."""
    resume_from: MountPath | None = None
    """As that of a command: a directory to start from, told in `TRAINWRIGHT_RESUME_DIRECTORY`."""
    training: ScriptTraining | None = None
    """What the program trains, for the plan alone; with the run's `batch`, memory and traffic are estimated and checked."""

    @property
    def brings(self) -> Mapping[str, str]:
        """Path -> text of files that come with the work itself."""
        return {}


def with_brought(data: Mapping[Any, Any]) -> dict[Any, Any]:
    """The fields of a run, with the files that its work brings among `files`."""
    work = data.get("workload")
    if not isinstance(work, ScriptWorkload) or not work.brings:
        return dict(data)
    return {**data, "files": {**(data.get("files") or {}), **work.brings}}


class CommandWorkload(Model):
    """An opaque command, one process per pod, with torchrun's environment."""

    kind: Literal["command"] = "command"
    """An opaque command."""
    command: Command | None = None
    """Program and arguments, each a list element; one process per pod. Default: the image's entrypoint, with `args`."""
    args: Arguments = ()
    """Arguments after `command`, or of the image's entrypoint; `[]` without a command starts that as it is."""
    working_dir: AbsolutePath | None = None
    """Directory in which the program starts. Default: that of the image."""
    launcher_variables: bool | None = None
    """Whether each pod is told `MASTER_ADDR`, `MASTER_PORT`, `NNODES`, `NODE_RANK` and `NPROC_PER_NODE`. Default: those that the
    command, or a file or variable of the run, reads.
    """
    resume_from: MountPath | None = None
    """Directory to start from, which the program only reads: pods are told it in `TRAINWRIGHT_RESUME_DIRECTORY`. Where to save
    is another variable.
    """

    @model_validator(mode="after")
    def _something_runs(self) -> Self:
        if self.command is None and "args" not in self.model_fields_set:
            raise ValueError("nothing says what runs; write command, or args for the image's entrypoint, [] if it needs none")
        return self

    @property
    def words(self) -> tuple[str, ...]:
        """What is written of the command, without the image's entrypoint."""
        return (*(self.command or ()), *self.args)


Workload = Annotated[TrainerWorkload | BoostingWorkload | ScriptWorkload | CommandWorkload, Field(discriminator="kind")]
Trained = TrainerWorkload | ScriptTraining
"""What the estimates read."""
