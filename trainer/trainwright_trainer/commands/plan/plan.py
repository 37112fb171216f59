"""The plan of a run: numbers only, so that a report can print it and a program can read it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from trainwright_trainer.commands.local.world import read_deepspeed_config
from trainwright_trainer.contract.data import DIGITS_SAMPLES, Digits, PythonSource
from trainwright_trainer.contract.engine import CAPABILITIES
from trainwright_trainer.contract.estimate.computation import Computation, computation, sequence_length
from trainwright_trainer.contract.estimate.memory import Pod, RankMemory, checkpoint_bytes, rank_memory
from trainwright_trainer.contract.estimate.traffic import collectives
from trainwright_trainer.contract.model import Layers
from trainwright_trainer.contract.sharding import Sharding, of_training
from trainwright_trainer.contract.spec import RunSpec, Script, World
from trainwright_trainer.contract.training import Checkpoints, LearningRate, Training
from trainwright_trainer.optim.schedule import learning_rate
from trainwright_trainer.rank.ending import seconds_for_save


@dataclass(frozen=True, slots=True)
class WorldPlan:
    nodes: int
    processes_per_node: int
    ranks: int
    replicas: int
    device: str
    rendezvous: str


@dataclass(frozen=True, slots=True)
class BatchPlan:
    samples: int
    """Of one step."""
    micro: int
    accumulation: int
    replicas: int


@dataclass(frozen=True, slots=True)
class LengthPlan:
    """The whole run. None where the number of samples is not known here."""

    steps: int | None
    samples: int | None
    tokens: int | None
    epochs: float | None


@dataclass(frozen=True, slots=True)
class RatePlan:
    schedule: str
    peak: float
    warmup_samples: int
    warmup_steps: int
    """Steps until the rate is at its peak."""
    last: float | None
    """Of the run's last step."""


@dataclass(frozen=True, slots=True)
class CheckpointPlan:
    directory: str
    size: int | None
    """Bytes of one."""
    every_steps: int | None
    every_seconds: float | None
    keep: int
    resume: str
    save_seconds: float
    """What a final save is expected to take."""
    seconds_for_save: float
    """What the grace period leaves for it."""

    @property
    def fits(self) -> bool:
        return self.save_seconds <= self.seconds_for_save


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    engine: str
    task: str
    architecture: str
    precision: str
    batch: BatchPlan
    data: DataSize
    length: LengthPlan
    rate: RatePlan
    model: ModelSize
    memory: RankMemory | None
    """Of one rank. None, as what it sends, where the model's size or DeepSpeed's configuration is not known here."""
    sent: int | None
    """Bytes that one rank sends in a step."""
    capabilities: dict[str, bool]


@dataclass(frozen=True, slots=True)
class Plan:
    run: str
    identity: str
    work: str
    """Its kind."""
    world: WorldPlan
    grace_seconds: float
    training: TrainingPlan | None
    checkpoints: CheckpointPlan | None
    """None for a script, whose checkpoints are its own."""
    command: tuple[str, ...] | None
    """Of a script; of a command nothing, since its words are in the pod."""
    rounds: int | None
    """Of boosting."""


def plan(spec: RunSpec, source: Path) -> Plan:
    """What a run will do. Starts nothing, and reads nothing but the data, where it is on this machine.

    Args:
        source: Where the specification was read from.

    Raises:
        InvalidRunError: The model cannot be built, or DeepSpeed's configuration is not one.
        DataError: The data is here, and is not what the specification says.
    """
    work, world = spec.work, spec.world
    training = _training(work, spec, source) if isinstance(work, Training) else None
    return Plan(
        run=spec.run,
        identity=spec.identity,
        work=work.kind,
        world=WorldPlan(
            world.nodes, world.processes_per_node, world.size, world.replicas, world.device, world.rendezvous.kind
        ),
        grace_seconds=spec.lifecycle.grace_seconds,
        training=training,
        checkpoints=None if isinstance(work, Script) else _checkpoints(work.checkpoints, spec, training),
        command=work.command if isinstance(work, Script) else None,
        rounds=None if isinstance(work, Script | Training) else work.rounds,
    )


def _training(work: Training, spec: RunSpec, source: Path) -> TrainingPlan:
    replicas = spec.world.replicas
    samples = work.batch.samples(replicas)
    data, (size, counted) = data_size(work), model_size(work)
    length = _length(work, samples, data)
    config = None if work.deepspeed is None else read_deepspeed_config(work.deepspeed.config, source)
    sharding = of_training(work, spec.world.fewest_ranks, config)
    tokens = sequence_length(work.model, work.data)
    computed = computation(work, tokens, work.batch.micro, work.batch.accumulation, counted)
    memory, sent = _cost(computed, sharding, work, spec.world) if computed and sharding else (None, None)
    return TrainingPlan(
        engine=work.engine,
        task=work.task,
        architecture=work.model.architecture,
        precision=work.precision,
        batch=BatchPlan(samples, work.batch.micro, work.batch.accumulation, replicas),
        data=data,
        length=length,
        rate=_rate(work.learning_rate, samples, length),
        model=size,
        memory=memory,
        sent=sent,
        capabilities=CAPABILITIES[work.engine]._asdict(),
    )


def _cost(computed: Computation, sharding: Sharding, work: Training, world: World) -> tuple[RankMemory, int]:
    """Memory of one rank, and bytes that it sends in a step."""
    pod = Pod(world.device, world.processes_per_node)
    made, _ = collectives(computed, sharding, world.size, world.processes_per_node)
    memory = rank_memory(computed, sharding, pod, work.engine, work.checkpoints.save)
    return memory, sum(each.sent for each in made)


def _length(work: Training, batch: int, data: DataSize) -> LengthPlan:
    if work.duration.epochs is not None and data.train is None:
        return LengthPlan(None, None, None, work.duration.epochs)
    samples = work.duration.target_samples(data.train or 0, batch)
    steps = math.ceil(samples / batch)
    samples = steps * batch  # the last step reaches the target, and takes a whole batch
    tokens = None if data.sequence_length is None else samples * data.sequence_length
    return LengthPlan(steps, samples, tokens, None if data.train is None else samples / data.train)


def _rate(rate: LearningRate, batch: int, length: LengthPlan) -> RatePlan:
    last = None if length.samples is None else learning_rate(rate, length.samples, length.samples)
    return RatePlan(rate.schedule, rate.peak, rate.warmup_samples, math.ceil(rate.warmup_samples / batch), last)


def _checkpoints(settings: Checkpoints, spec: RunSpec, training: TrainingPlan | None) -> CheckpointPlan:
    parameters = None if training is None else training.model.parameters
    work, lifecycle = spec.work, spec.lifecycle
    return CheckpointPlan(
        directory=settings.directory,
        size=checkpoint_bytes(parameters, work.optimizer) if isinstance(work, Training) and parameters is not None else None,
        every_steps=settings.every_steps,
        every_seconds=settings.every_seconds,
        keep=settings.keep,
        resume=settings.resume,
        save_seconds=lifecycle.save_seconds,
        seconds_for_save=seconds_for_save(lifecycle.grace_seconds),
    )


@dataclass(frozen=True, slots=True)
class DataSize:
    source: str
    train: int | None
    """Samples to learn from."""
    held_out: int | None
    sequence_length: int | None
    """Tokens of a sample; None for images."""
    how: str
    """Where the numbers come from, or why there are none."""


def data_size(training: Training) -> DataSize:
    """Counted where the data is on this machine, else as the specification states it.

    Raises:
        DataError: It is here, and is not what the specification says.
        StorageError: The volume failed.
    """
    data = training.data
    length = getattr(data, "sequence_length", None)
    if isinstance(data, Digits):
        return DataSize(data.source, data.train_samples, DIGITS_SAMPLES - data.train_samples, None, "part of scikit-learn")
    if not isinstance(data, PythonSource) and not Path(data.path).exists():
        return DataSize(data.source, data.train_samples, None, length, f"{data.path} is not on this machine")
    try:
        from trainwright_trainer.data.load import load, vocabulary_of

        dataset = load(data, training.seed, vocabulary_of(training.model))
    except ModuleNotFoundError as error:
        return DataSize(data.source, data.train_samples, None, length, f"{error.name} is not installed, so not counted")
    return DataSize(data.source, len(dataset.train), len(dataset.held_out), length, "counted here")


@dataclass(frozen=True, slots=True)
class ModelSize:
    parameters: int | None
    how: str
    """Where the number comes from, or why there is none."""


def model_size(training: Training) -> tuple[ModelSize, Layers | None]:
    """Built without memory and counted, tied weights once; by the contract's formula where torch is not there. With its tensors.

    Raises:
        InvalidRunError: ``transformers`` cannot build the model.
    """
    try:
        from trainwright_trainer.model.blocks import counted_layers
        from trainwright_trainer.model.build import build_model
        from trainwright_trainer.model.configuration import ignored_keys
        from trainwright_trainer.model.initialise import skeleton
    except ModuleNotFoundError as error:
        formula = training.model.parameters
        said = "nor stated" if training.model.architecture == "transformers" else "known"
        how = f"{error.name} is not installed, so not counted" + ("; by formula" if formula is not None else f", {said}")
        return ModelSize(formula, how), None
    module = skeleton(lambda: build_model(training.model, training.task, training.data))
    note = "".join(f"; model.config.{key} is ignored" for key in ignored_keys(training.model))
    counted = counted_layers(module)
    return ModelSize(counted.parameters, f"counted on the meta device{note}"), counted
