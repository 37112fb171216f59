"""A loop of one's own by accelerate."""

from __future__ import annotations

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from tests.engines.adapters.scripts.weights import STEPS, a_moment, tell

from trainwright_trainer import run
from trainwright_trainer.adapters.accelerate import load, save


def main() -> None:
    accelerator = Accelerator(cpu=True)
    set_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(0.2), torch.nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    model, optimizer, schedule = accelerator.prepare(model, optimizer, schedule)
    set_seed(3, device_specific=True)
    done = load(accelerator)
    for step in range(done + 1, STEPS + 1):
        inputs = torch.randn(4, 8)
        loss = torch.nn.functional.mse_loss(model(inputs), inputs.sum(dim=1, keepdim=True))
        accelerator.backward(loss)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        a_moment()
        run.step(step, loss=loss, samples=step * 4 * run.world.size)
        stop = run.should_stop()
        if stop or step % 5 == 0:
            save(accelerator)
        if stop:
            run.stopped()
    tell(accelerator.unwrap_model(model))
    accelerator.end_training()


if __name__ == "__main__":
    main()
