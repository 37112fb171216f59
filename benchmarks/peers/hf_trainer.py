"""Hugging Face transformers' Trainer."""

from __future__ import annotations

import tempfile
from typing import Any

from accelerate.utils import DistributedDataParallelKwargs
from torch import nn
from torch.utils.data import DataLoader
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from peers.work import Batch, MicroBatches, Work


class _Reports(TrainerCallback):
    def __init__(self, work: Work) -> None:
        self._work = work

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, logs: dict[str, Any] | None = None,
        **rest: object,
    ) -> None:
        if logs and "loss" in logs:
            self._work.report(state.global_step, float(logs["loss"]))


class _Trainer(Trainer):
    """With the samples of this rank as they are, and with the one setting of DDP for which there is no argument."""

    work: Work

    def get_train_dataloader(self) -> DataLoader[Batch]:
        return self.work.loader()

    def _build_accelerator_args(self, **kwargs: Any) -> dict[str, Any]:
        built: dict[str, Any] = super()._build_accelerator_args(**kwargs)
        for handler in built["kwargs_handlers"]:
            if isinstance(handler, DistributedDataParallelKwargs):
                handler.gradient_as_bucket_view = True
        return built


def train(work: Work) -> nn.Module:
    module = work.model()
    optimizer = work.optimizer(module)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            max_steps=work.steps,
            per_device_train_batch_size=work.training.batch.micro,
            gradient_accumulation_steps=work.training.batch.accumulation,
            max_grad_norm=work.clip_norm,
            bf16=work.bf16,
            use_cpu=work.device.type == "cpu",
            ddp_find_unused_parameters=False,
            logging_steps=work.training.log_every_steps,
            logging_nan_inf_filter=False,  # would wait for the device in every micro batch, which no other side does
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            remove_unused_columns=False,
            seed=work.training.seed,
        )
        trainer = _Trainer(
            model=module, args=arguments, train_dataset=MicroBatches(work), callbacks=[_Reports(work)],
            optimizers=(optimizer, work.schedule(optimizer)),
        )
        trainer.work = work
        trainer.remove_callback(PrinterCallback)  # one line a logged step is enough, and every side writes ours
        trainer.train()
    return module
