"""From a run's ``engine`` to its implementation. What an engine needs besides torch is imported when it is asked for."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import torch

from trainwright_trainer.contract.failures import InvalidRunError
from trainwright_trainer.contract.training import Training
from trainwright_trainer.engine.base import Engine
from trainwright_trainer.engine.update import UpdateRules
from trainwright_trainer.engine.world import TorchWorld
from trainwright_trainer.rank.place import Place


def build_engine(training: Training, place: Place, device: torch.device, timeout: timedelta) -> Engine:
    """Meet the other ranks. Raises :class:`InvalidRunError` where this image lacks the engine's library."""
    rules = UpdateRules(training.precision, training.clip_norm, training.skip_non_finite or 0)
    match training.engine:
        case "ddp":
            from trainwright_trainer.engine.ddp import DDPEngine

            return DDPEngine(TorchWorld(place, device, timeout), rules, training.gradient_reduction)
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
