"""Work: what every peer is given, so that nothing differs but the loop.

Model, first weights, samples and their order, optimizer and schedule come from our trainer's own packages. What is left to a peer
is what it is for: moving batches, accumulation, the reduction over ranks, clipping, precision, logging.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, Dataset

from trainwright_trainer.contract import RunSpec
from trainwright_trainer.contract.training import Training
from trainwright_trainer.data.dataset import Dataset as Samples
from trainwright_trainer.data.load import load
from trainwright_trainer.data.order import DataOrder, evaluation_slices, rank_slice
from trainwright_trainer.model.blocks import compile_blocks
from trainwright_trainer.model.build import build_model
from trainwright_trainer.model.initialise import initialise, materialise, skeleton, write
from trainwright_trainer.observe.log import configure, get_log
from trainwright_trainer.optim.schedule import learning_rate
from trainwright_trainer.task.base import Task
from trainwright_trainer.training.assembly import build_optimizer, build_task

Batch = dict[str, Tensor]
"""Arguments of ``LlamaForCausalLM``."""


class MicroBatches(Dataset[Batch]):
    """One rank's micro batches of the whole run, in order: the samples that our loop gives this rank."""

    def __init__(self, work: Work) -> None:
        self._work = work
        training = work.training
        self._order = DataOrder(training.seed, len(work.samples.train), work.samples.fingerprint)

    def __len__(self) -> int:
        return self._work.steps * self._work.training.batch.accumulation

    def __getitem__(self, number: int) -> Batch:
        work, batch = self._work, self._work.training.batch
        step, micro = divmod(number, batch.accumulation)
        whole = self._order.batch(step * work.global_batch, work.global_batch)
        share = rank_slice(whole, work.rank, work.world_size, batch.micro)[micro]
        made = work.task.collate(work.samples.train, share)
        # The targets are shifted already. transformers takes those as `shift_labels`, and wants `labels` beside them.
        return {"input_ids": made["inputs"], "labels": made["labels"], "shift_labels": made["labels"]}


@dataclass(frozen=True, slots=True)
class Work:
    """A run on one rank."""

    spec: RunSpec
    training: Training
    rank: int
    world_size: int
    device: torch.device
    samples: Samples
    task: Task

    @classmethod
    def open(cls, path: Path, environment: Mapping[str, str]) -> Work:
        spec = RunSpec.model_validate_json(path.read_bytes())
        training = spec.work
        assert isinstance(training, Training)  # noqa: S101  train_spec.py writes no other
        rank = int(environment.get("RANK", "0"))
        configure(spec.run, spec.identity, node=0, rank=rank)
        torch.set_num_threads(int(environment["OMP_NUM_THREADS"]))
        device = torch.device("cuda", 0) if spec.world.device == "cuda" else torch.device("cpu")
        samples, task = load(training.data, training.seed), build_task(training.task, training.data, training.seed)
        return cls(spec, training, rank, spec.world.size, device, samples, task)

    @property
    def steps(self) -> int:
        return self.training.duration.steps or 0

    @property
    def global_batch(self) -> int:
        return self.training.batch.micro * self.training.batch.accumulation * self.world_size

    @property
    def bf16(self) -> bool:
        return self.training.precision == "bf16"

    @property
    def clip_norm(self) -> float:
        return self.training.clip_norm or 0.0

    def model(self) -> nn.Module:
        """The model on its device, with the weights that our trainer starts with; blocks are compiled where a run says so."""
        module: Any = skeleton(lambda: build_model(self.training.model, self.training.task, self.training.data))
        # Ours answers with sums. A peer has the class's own answer and loss.
        vars(module).pop("forward")
        module.config.use_cache = False  # as every manual says for training
        if self.training.compile:
            compile_blocks(module)
        materialise(module, self.device)
        initialise(module, seed=self.training.seed, store=write)
        module.train()
        return cast("nn.Module", module)

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        """The same groups, settings and kernels as ours."""
        return build_optimizer(self.training.optimizer, model, self.training.learning_rate.peak)

    def schedule(self, optimizer: torch.optim.Optimizer) -> LambdaLR:
        """To be stepped after each step of the optimizer."""
        rate, target = self.training.learning_rate, self.steps * self.global_batch

        def factor(done: int) -> float:
            return learning_rate(rate, min(done + 1, self.steps) * self.global_batch, target) / rate.peak

        return LambdaLR(optimizer, factor)

    def loader(self) -> DataLoader[Batch]:
        """Micro batches on the host. No worker processes: reading one costs less than handing it over."""
        return DataLoader(MicroBatches(self), batch_size=None, shuffle=False, pin_memory=self.device.type == "cuda")

    def moved(self, batch: Batch) -> Batch:
        return {name: tensor.to(self.device, non_blocking=True) for name, tensor in batch.items()}

    def is_due(self, step: int) -> bool:
        """Whether a step is logged."""
        return step % self.training.log_every_steps == 0 or step == self.steps

    def report(self, step: int, loss: float) -> None:
        """A step's line, from rank 0."""
        if self.rank == 0:
            get_log().info("step", step=step, loss=round(loss, 6))

    @torch.no_grad()
    def evaluate(self, model: nn.Module) -> None:
        """Score the held-out batches that our trainer scores at its end."""
        split, evaluation = self.samples.held_out, self.training.evaluation
        slices = evaluation_slices(len(split), self.rank, self.world_size, self.training.batch.micro)[:evaluation.max_batches]
        sums = torch.zeros(2, dtype=torch.float64, device=self.device)
        model.eval()
        for share in slices:
            batch = {name: tensor.to(self.device) for name, tensor in self.task.collate(split, share).items()}
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16):
                logits = model(input_ids=batch["inputs"]).logits
            losses = nn.functional.cross_entropy(logits.float().flatten(0, 1), batch["labels"].flatten(), reduction="sum")
            sums += torch.stack([losses.double(), (batch["labels"] != -100).sum().double()])
        if dist.is_initialized():
            dist.all_reduce(sums)
        if self.rank == 0:
            get_log().info("evaluated", step=self.steps, loss=round(float(sums[0] / sums[1]), 6), items=int(sums[1]))


def group_by(accumulation: int, number: int) -> tuple[int, bool]:
    """Of the micro batch with this number, from 0: its optimizer step, from 1, and whether it is that step's last."""
    return number // accumulation + 1, (number + 1) % accumulation == 0
