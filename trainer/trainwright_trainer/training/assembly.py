"""Assembly: from a specification to a loop that is ready to run.

A run's ``engine``, ``optimizer`` and ``task`` become their implementations here. What an engine needs besides torch is imported
when it is asked for.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping
from datetime import timedelta
from pathlib import Path

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from trainwright_trainer.checkpoint.record import INITIAL_WEIGHTS, TRAINED, Trained
from trainwright_trainer.contract.data import Data, Digits, HFDataset, ImageFolder, PythonSource, TokenFiles
from trainwright_trainer.contract.failures import InvalidRunError, TopologyMismatchError
from trainwright_trainer.contract.spec import RunSpec
from trainwright_trainer.contract.training import SGD, AdamW, Optimizer, TaskName, Training
from trainwright_trainer.data.load import load, vocabulary_of
from trainwright_trainer.engine.base import Engine, Recipe
from trainwright_trainer.engine.update import UpdateSettings
from trainwright_trainer.engine.world import TorchWorld
from trainwright_trainer.model.blocks import blocks, checkpoint_activations, compile_blocks
from trainwright_trainer.model.build import build_model
from trainwright_trainer.model.configuration import ignored_keys
from trainwright_trainer.model.initialise import Store, initialise
from trainwright_trainer.observe.log import get_log
from trainwright_trainer.observe.sinks import open_sinks
from trainwright_trainer.rank import random_state
from trainwright_trainer.rank.link import Link
from trainwright_trainer.rank.place import Place
from trainwright_trainer.rank.preflight.on_torch import torch_checks
from trainwright_trainer.task.base import Task
from trainwright_trainer.task.causal_lm import CausalLanguageModel
from trainwright_trainer.task.classification import ImageClassification, TextClassification
from trainwright_trainer.task.masked_lm import MaskedLanguageModel
from trainwright_trainer.training.checkpointer import Checkpointer, EveryRank
from trainwright_trainer.training.loop import Loop
from trainwright_trainer.training.reporting import Meter, Reporter, WatchedGroup
from trainwright_trainer.training.start import agreed_attempt, check_data, check_ranks, resume_before
from trainwright_trainer.training.torch_learner import TorchLearner, Work
from trainwright_trainer.training.witness import open_witness


def build_engine(training: Training, place: Place, device: torch.device, timeout: timedelta) -> Engine:
    """Meet the other ranks. Raises :class:`InvalidRunError` where this image lacks the engine's library."""
    rules = UpdateSettings(training.precision, training.clip_norm, training.skip_non_finite or 0)
    match training.engine:
        case "ddp":
            from trainwright_trainer.engine.ddp import DDPEngine

            return DDPEngine(TorchWorld(place, device, timeout), rules, training.gradient_reduction, training.ddp)
        case "fsdp2":
            from trainwright_trainer.contract.engine import FSDP2
            from trainwright_trainer.engine.fsdp2 import FSDP2Engine

            settings = training.fsdp2 or FSDP2()
            return FSDP2Engine(TorchWorld(place, device, timeout), rules, training.gradient_reduction, settings)
        case "deepspeed" if training.deepspeed is not None:
            from trainwright_trainer.engine.deepspeed import DeepSpeedEngine

            config = Path(training.deepspeed.config)
            return DeepSpeedEngine(TorchWorld(place, device, timeout), training.precision, config, training.optimizer)
        case "horovod":
            from trainwright_trainer.engine.horovod import HorovodEngine, HorovodWorld

            world = HorovodWorld(place, device)
            return HorovodEngine(world, rules, training.gradient_reduction, training.batch.accumulation)
        case _:
            raise InvalidRunError(f"this trainer has no engine {training.engine} for torch")


_FUSED_ON = ("cpu", "cuda")
"""One kernel for the whole update of a parameter (torch 2.4 and later on CPUs)."""


def build_optimizer(optimizer: Optimizer, module: nn.Module, rate: float) -> torch.optim.Optimizer:
    """The optimizer over all parameters. Biases and norms (fewer than two dimensions) are not decayed.

    Sharded parameters are grouped by the dimensions of the whole parameter, so the groups are the same under every engine.
    """
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    decayed = [parameter for parameter in parameters if _dimensions(parameter) >= 2]
    others = [parameter for parameter in parameters if _dimensions(parameter) < 2]
    groups = [{"params": decayed, "weight_decay": optimizer.weight_decay}, {"params": others, "weight_decay": 0.0}]
    groups = [group for group in groups if group["params"]]
    fused = all(parameter.device.type in _FUSED_ON for parameter in parameters)
    match optimizer:
        case AdamW():
            return torch.optim.AdamW(groups, lr=rate, betas=optimizer.betas, eps=optimizer.eps, fused=fused)
        case SGD():
            # torch 2.13 has no such kernel for a DTensor.
            fused = fused and not any(isinstance(parameter, DTensor) for parameter in parameters)
            return torch.optim.SGD(groups, lr=rate, momentum=optimizer.momentum, nesterov=optimizer.nesterov, fused=fused)


def _dimensions(parameter: nn.Parameter) -> int:
    """Of the whole parameter. A DTensor says them itself; DeepSpeed flattens what it partitions, and keeps ``ds_shape``."""
    return len(getattr(parameter, "ds_shape", parameter.shape))


def build_task(name: TaskName, data: Data | None = None, seed: int = 0) -> Task:
    """The task of that name.

    Args:
        name: The run's ``task``.
        data: The run's; masked-lm finds the token for its mask there.
        seed: The run's; masked-lm draws its masks from it.

    Raises:
        DataError: The data's tokenizer cannot be read, or has no token for a mask.
    """
    match name:
        case "image-classification":
            return ImageClassification()
        case "causal-lm":
            return CausalLanguageModel(data.sequence_length if isinstance(data, PythonSource | TokenFiles) else None)
        case "text-classification":
            return TextClassification()
        case "masked-lm":
            return _masked(data, seed)


def _masked(data: Data | None, seed: int) -> Task:
    if isinstance(data, HFDataset):
        from trainwright_trainer.data.tokenizer import TextTokenizer

        tokenizer = TextTokenizer(Path(data.tokenizer))
        return MaskedLanguageModel(seed, tokenizer.mask_id, tokenizer.vocabulary)
    if data is None or isinstance(data, Digits | ImageFolder) or data.vocabulary is None:
        raise ValueError("masked-lm reads text with a known vocabulary")  # the contract refuses the rest
    return MaskedLanguageModel(seed, data.vocabulary, data.vocabulary)


MIN_COLLECTIVE_SECONDS = 1800.0
"""Backstop, as long as torch's own. Supervisors find a peer that is gone within seconds, and their watchdog one that hangs."""


def assemble(spec: RunSpec, place: Place, link: Link, environment: Mapping[str, str]) -> Loop:
    """Meet the other ranks and build everything that the loop needs.

    Raises:
        RankError: Something in the specification cannot be had here; the message says what.
    """
    training = spec.work
    if not isinstance(training, Training):
        raise InvalidRunError("work.kind is script: its command runs instead of this rank")
    device = _device(spec, place)
    choose_kernels(device, training, os.environ)
    dataset = load(training.data, training.seed, vocabulary_of(training.model), training.skip_unreadable)
    task = build_task(training.task, training.data, training.seed)
    engine = build_engine(training, place, device, _timeout(spec))
    control, meter = engine.world.control, Meter()
    check_ranks(spec, place, link, control, torch_checks(device, engine.world.all_reduce))
    check_data(control, dataset.fingerprint)
    engine.setup(_recipe(training, task, dataset.padding))
    if place.leads and (ignored := ignored_keys(training.model)):
        get_log().info("model_config_ignored", keys=list(ignored))
    random_state.seed_all(training.seed, f"rank {place.rank}")
    metadata: dict[str, object] = {TRAINED: Trained.of(training).model_dump(mode="json")}
    if training.initial_weights is not None:
        metadata[INITIAL_WEIGHTS] = training.initial_weights
    work = Work(training, engine, task, dataset, metadata, open_witness(environment, place, device))
    group = WatchedGroup(control, link, meter)
    report = Reporter(place, link, open_sinks(spec, leads=place.leads), dataset.unreadable)
    learner = TorchLearner(work, place, link, report, group, meter)
    checkpoints = Checkpointer(
        spec, training.checkpoints, learner, link, place,
        reading=EveryRank(place, control),
        writing=EveryRank(place, engine.world.new_group()),
        attempt=agreed_attempt(environment, control),
        fingerprint=dataset.fingerprint,
        resume_before=resume_before(environment),
    )
    every = training.evaluation.every_steps
    return Loop(
        spec=spec, settings=training.checkpoints, evaluate_every=every, place=place, link=link, report=report,
        group=group, learner=learner, checkpoints=checkpoints,
    )


def _device(spec: RunSpec, place: Place) -> torch.device:
    if spec.world.device == "cpu":
        return torch.device("cpu")
    found = torch.cuda.device_count()
    if place.local_rank >= found:
        build = "" if torch.version.cuda or torch.version.hip else "; the torch of this image is built for CPUs only"
        raise TopologyMismatchError(
            f"world.processes_per_node is {spec.world.processes_per_node} on cuda, and this pod sees {found} GPUs{build}"
        )
    device = torch.device("cuda", place.local_rank)
    torch.cuda.set_device(device)
    return device


ORDERED = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple"}
"""Variables by which cuBLAS and NCCL add in the same order each time (docs/verify-resume.md has the sources)."""


def choose_kernels(device: torch.device, training: Training, environment: MutableMapping[str, str]) -> None:
    """On CPUs a resumed run has the bits of an uninterrupted one. GPUs stay fast unless the run asks for that: several of their
    kernels have only a slow form of it, and some have none, which torch then refuses by name.

    Args:
        device: Before anything was computed there.
        training: What the run asks for.
        environment: Of this process; what is set there stays.
    """
    torch.backends.cudnn.benchmark = training.cudnn_benchmark
    if device.type == "cpu" or training.deterministic:
        environment.update({name: value for name, value in ORDERED.items() if name not in environment})
        torch.backends.cudnn.deterministic = True
        torch.use_deterministic_algorithms(True)
        # Costs time, and guards against reads of uninitialized memory, which we do not make.
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def _timeout(spec: RunSpec) -> timedelta:
    return timedelta(seconds=max(MIN_COLLECTIVE_SECONDS, 4 * spec.lifecycle.save_seconds))


def _recipe(training: Training, task: Task, padding: int | None) -> Recipe:
    weights = None if training.initial_weights is None else Path(training.initial_weights)

    def build() -> nn.Module:
        return build_model(training.model, training.task, training.data, padding)

    def prepare(module: nn.Module) -> None:
        if training.activation_checkpointing:
            checkpoint_activations(module)
        if training.compile:
            compile_blocks(module)

    def first_values(module: nn.Module, store: Store) -> None:
        origin = initialise(module, seed=training.seed, weights=weights, store=store)
        if origin is not None:
            names = {"fresh": list(origin.fresh), "unused": list(origin.unused)}
            get_log().info("initial_weights", path=str(weights), **names)

    def optimizer(module: nn.Module) -> torch.optim.Optimizer:
        return build_optimizer(training.optimizer, module, training.learning_rate.peak)

    return Recipe(build, prepare, first_values, blocks, optimizer, task)
