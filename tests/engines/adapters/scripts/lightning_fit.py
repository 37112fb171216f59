"""A Lightning module, with a loader that knows where it is, as torchdata's StatefulDataLoader does."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytorch_lightning as lightning
import torch
from tests.engines.adapters.scripts.weights import STEPS, a_moment, tell

from trainwright_trainer import run
from trainwright_trainer.adapters.lightning import TrainwrightCallback, newest


class Batches:
    """Of one rank: the n-th batch of an epoch is a function of n."""

    def __init__(self, number: int) -> None:
        self._number, self._given = number, 0

    def __len__(self) -> int:
        return self._number

    def __iter__(self) -> Iterator[torch.Tensor]:
        while self._given < self._number:
            self._given += 1
            yield torch.randn(4, 8, generator=torch.Generator().manual_seed(100 * self._given + run.world.rank))
        self._given = 0

    def state_dict(self) -> dict[str, int]:
        return {"given": self._given}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self._given = state["given"]


class Regression(lightning.LightningModule):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))

    def training_step(self, batch: torch.Tensor, index: int) -> torch.Tensor:
        a_moment()
        return torch.nn.functional.mse_loss(self.layers(batch), batch.sum(dim=1, keepdim=True))

    def configure_optimizers(self) -> Any:
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


def main() -> None:
    lightning.seed_everything(5)
    model = Regression()
    trainer = lightning.Trainer(
        accelerator="cpu", strategy="ddp", devices=run.world.local_size, num_nodes=int(os.environ["GROUP_WORLD_SIZE"]),
        max_epochs=2, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        callbacks=[TrainwrightCallback(every_n_steps=5)],
    )
    trainer.fit(model, Batches(STEPS // 2), ckpt_path=newest())
    tell(model.layers)


if __name__ == "__main__":
    main()
