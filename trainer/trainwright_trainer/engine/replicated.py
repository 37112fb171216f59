"""What engines have in common whose every rank holds the whole model: module, optimizer, state and update."""

from __future__ import annotations

from typing import Generic, TypeVar

import torch
from torch import nn

from trainwright_trainer.checkpoint import CommittedFiles, Snapshot
from trainwright_trainer.engine import whole_state
from trainwright_trainer.engine.base import Recipe, StepResult, TensorSnapshot
from trainwright_trainer.engine.update import Update, UpdateRules
from trainwright_trainer.engine.world import World
from trainwright_trainer.model.initialise import materialise, skeleton, write

AnyWorld = TypeVar("AnyWorld", bound=World)


class ReplicatedEngine(Generic[AnyWorld]):
    """Base of DDP and Horovod, which differ in who sums the gradients, and when.

    Args:
        world: The ranks.
        rules: Of the optimizer's steps.
    """

    def __init__(self, world: AnyWorld, rules: UpdateRules) -> None:
        self.world, self._rules = world, rules
        self._loss = torch.zeros((), device=world.device)
        """Of the step under way: this rank's part of the mean over the global batch."""

    def setup(self, recipe: Recipe) -> None:
        self._recipe, self._task = recipe, recipe.task
        module = skeleton(recipe.build)
        recipe.prepare(module)
        materialise(module, self.world.device)
        self._module = module.train()
        self._optimizer = recipe.optimizer(module)
        self._update = Update(self._optimizer, self._rules)

    def initialise(self) -> None:
        self._recipe.initialise(self._module, write)

    def load(self, files: CommittedFiles) -> None:
        whole_state.load(files, self._module, self._optimizer, self._update, self.world)

    def step(self, rate: float) -> StepResult:
        gradients = [parameter.grad for parameter in self._module.parameters() if parameter.grad is not None]
        loss = self._loss.clone()
        self.world.all_reduce(loss)
        self._loss.zero_()
        # Equal on all ranks without asking: reduced gradients and loss have the same bits everywhere.
        return self._update.apply(loss, nn.utils.get_total_norm(gradients), gradients, rate)

    def snapshot(self) -> Snapshot:
        state = whole_state.files(self._module, self._optimizer, self._update) if self.world.place.leads else {}
        return TensorSnapshot(state)
