"""Assembly: from a specification to a loop that is ready to run."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from datetime import timedelta

import torch
from torch import nn

from trainwright_trainer import random_state
from trainwright_trainer.checkpointing import Checkpointer
from trainwright_trainer.contract.spec import RunSpec
from trainwright_trainer.contract.training import Training
from trainwright_trainer.data.load import load
from trainwright_trainer.engine.base import Engine
from trainwright_trainer.engine.ddp import DDPEngine
from trainwright_trainer.failures import DataError, InvalidRunError, TopologyMismatchError
from trainwright_trainer.lifecycle.link import Link
from trainwright_trainer.lifecycle.messages import ATTEMPT_ENV
from trainwright_trainer.loop import Loop, Parts
from trainwright_trainer.model.build import build_model
from trainwright_trainer.optim.build import build_optimizer
from trainwright_trainer.place import Place
from trainwright_trainer.task.build import build_task

MIN_COLLECTIVE_SECONDS = 300.0
"""Backstop for a peer that is there and silent; the supervisors find one that is gone within seconds."""


def assemble(spec: RunSpec, place: Place, link: Link, environment: Mapping[str, str]) -> Loop:
    """Meet the other ranks and build everything that the loop needs.

    Raises:
        RankError: Something in the specification cannot be had here; the message says what.
    """
    training = spec.work
    if not isinstance(training, Training):
        raise InvalidRunError("work.kind is script: its command runs instead of this rank")
    device = _device(spec, place)
    _be_deterministic(device)
    dataset, task = load(training.data), build_task(training.task)
    engine = _engine(spec, training, place, device)
    _same_data_everywhere(engine, dataset.fingerprint)

    def module() -> nn.Module:
        random_state.seed_all(training.seed, "model")
        return build_model(training.model, training.task, training.data)

    engine.setup(module, lambda built: build_optimizer(training.optimizer, built, training.learning_rate.peak), task)
    random_state.seed_all(training.seed, f"rank {place.rank}")
    checkpoints = Checkpointer(
        training.checkpoints, engine, link, place,
        identity=spec.identity,
        attempt=environment.get(ATTEMPT_ENV) or engine.broadcast_object(secrets.token_hex(6)),
        fingerprint=dataset.fingerprint,
        save_seconds=spec.lifecycle.save_seconds,
    )
    return Loop(Parts(spec, training, place, link, engine, task, dataset, checkpoints))


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


def _be_deterministic(device: torch.device) -> None:
    """On CPUs a resumed run has the bits of an uninterrupted one. GPUs stay fast: several of their kernels have no such form."""
    if device.type == "cpu":
        torch.use_deterministic_algorithms(True)
        # Costs time, and guards against reads of uninitialized memory, which we do not make.
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def _engine(spec: RunSpec, training: Training, place: Place, device: torch.device) -> Engine:
    timeout = timedelta(seconds=max(MIN_COLLECTIVE_SECONDS, 4 * spec.lifecycle.save_seconds))
    return DDPEngine(place, device, training.precision, training.clip_norm, timeout)


def _same_data_everywhere(engine: Engine, fingerprint: str) -> None:
    fingerprints = engine.gather_objects(fingerprint)
    different = [rank for rank, found in enumerate(fingerprints) if found != fingerprints[0]]
    different = engine.broadcast_object(different)
    if different:
        raise DataError(f"ranks {different} read other data than rank 0: the pods' images or volumes differ")
