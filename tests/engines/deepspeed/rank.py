"""A rank that trains with ZeRO-3, saves, and reads its checkpoint back, with each Adam there is: ``rank.py FOLDER``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import deepspeed
import torch
import torch.distributed as dist
from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint

OPTIMIZERS = {
    # Adam of torch; of DeepSpeed, for tensors on the device; of DeepSpeed, for state that was moved to the host.
    "torch": ({"torch_adam": True}, {}),
    "fused": ({}, {}),
    "cpu": ({}, {"offload_optimizer": {"device": "cpu"}}),
}


def main() -> None:
    deepspeed.init_distributed(dist_backend="gloo")
    said = {name: train(f"{sys.argv[1]}/{name}", *settings) for name, settings in OPTIMIZERS.items()}
    Path(f"said-{dist.get_rank()}.json").write_text(json.dumps(said), encoding="utf-8")
    dist.destroy_process_group()


def train(folder: str, parameters: dict[str, bool], offload: dict[str, dict[str, str]]) -> dict[str, object]:
    configuration = {
        "train_micro_batch_size_per_gpu": 16,
        "gradient_clipping": 1.0,
        "optimizer": {"type": "AdamW", "params": {"lr": 0.01, **parameters}},
        "zero_optimization": {"stage": 3, "overlap_comm": False, **offload},
    }
    engine, losses = start(configuration), []
    inputs = torch.randn(64, 16, generator=torch.Generator().manual_seed(0))[dist.get_rank()::2]
    for _ in range(12):
        loss = torch.nn.functional.mse_loss(engine(inputs), inputs.sum(dim=1, keepdim=True))
        engine.backward(loss)
        engine.step()
        losses.append(loss.detach())
    means = torch.stack(losses)
    dist.all_reduce(means)
    engine.save_checkpoint(folder, tag="step-12", client_state={"samples": 768})

    again = start(configuration)
    _, state = again.load_checkpoint(folder, tag="step-12")
    with torch.no_grad():
        outputs = [float(one(inputs).double().sum()) for one in (engine, again)]
    dist.barrier()
    weights = get_fp32_state_dict_from_zero_checkpoint(folder, tag="step-12").values()
    return {
        "losses": (means / 2).tolist(), "outputs": outputs, "samples": state["samples"],
        "weights": [float(weight.double().sum()) for weight in weights],
        "optimizer": type(engine.optimizer.optimizer).__name__,
    }


def start(configuration: dict[str, object]) -> deepspeed.DeepSpeedEngine:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    return deepspeed.initialize(model=model, model_parameters=list(model.parameters()), config=configuration)[0]


if __name__ == "__main__":
    main()
