"""Runs that no file of dist/ has: the program of the DDP tutorial, and a function."""

from trainwright.function import FunctionWorkload
from trainwright.run import Run
from trainwright.topology import DDP

COMMON = {
    "team": "vision", "namespace": "training", "cluster": "laptop",
    "image": "registry.example.com/mirror/pytorch@sha256:" + "b" * 64, "topology": DDP(nodes=2, gpus_per_node=0),
    "security": {"user": 1000, "read_only_root": True}, "supervisor": "brought",
    "checkpoints": {"by": "script", "lineage": "shape"}, "mounts": {"/checkpoints": {"claim": "training-checkpoints"}},
    "env": {"GO": "/checkpoints/go"},
}


def count(steps: int) -> None:
    import json
    import os
    import time

    from trainwright_trainer import run

    rank, found = run.world.rank, run.checkpoints.newest()
    losses = json.loads((found.path / f"rank-{rank}.json").read_text()) if found else []
    for step in range(len(losses) + 1, steps + 1):
        losses.append(sum(losses, rank + 1) / step**2)
        if not os.path.exists(os.environ["GO"]):
            time.sleep(0.2)
        run.step(step, loss=losses[-1])
        stop = run.should_stop()
        if stop or step % 5 == 0:
            (run.checkpoints.draft() / f"rank-{rank}.json").write_text(json.dumps(losses))
            run.checkpoints.commit(step)
        if stop:
            run.stopped()
    if rank == 0:
        with open(os.environ["TRAINWRIGHT_CHECKPOINT_DIRECTORY"] + "/result", "w") as file:
            json.dump(losses, file)


TUTORIAL = """\
import os
import time

import torch
import torch.nn.functional as F
from torch.distributed import destroy_process_group, init_process_group
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

from trainwright_trainer import run


class Numbers(Dataset):
    def __len__(self):
        return 256

    def __getitem__(self, index):
        inputs = torch.rand(20, generator=torch.Generator().manual_seed(index))
        return inputs, inputs.sum(dim=0, keepdim=True)


class Trainer:
    def __init__(self, model, data, optimizer):
        self.rank = int(os.environ["RANK"])
        self.model, self.data, self.optimizer = DDP(model), data, optimizer
        self.losses = []
        if found := run.checkpoints.newest():
            self.load_snapshot(found.path / "snapshot.pt")

    def load_snapshot(self, path):
        snapshot = torch.load(path)
        self.model.module.load_state_dict(snapshot["model"])
        self.optimizer.load_state_dict(snapshot["optimizer"])
        self.losses = snapshot["losses"]

    def save_snapshot(self):
        folder = run.checkpoints.draft()
        if self.rank == 0:
            snapshot = {"model": self.model.module.state_dict(), "optimizer": self.optimizer.state_dict(), "losses": self.losses}
            torch.save(snapshot, folder / "snapshot.pt")
        run.checkpoints.commit(len(self.losses))

    def run_batch(self, inputs, targets):
        self.optimizer.zero_grad()
        loss = F.mse_loss(self.model(inputs), targets)
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.item())

    def run_epoch(self, epoch):
        self.data.sampler.set_epoch(epoch)
        for step, (inputs, targets) in enumerate(self.data, epoch * len(self.data)):
            if step < len(self.losses):  # of an epoch that was begun before
                continue
            self.run_batch(inputs, targets)
            if not os.path.exists(os.environ["GO"]):
                time.sleep(0.2)
            run.step(len(self.losses), loss=self.losses[-1])
            stop = run.should_stop()
            if stop or len(self.losses) % 5 == 0:
                self.save_snapshot()
            if stop:
                run.stopped()

    def train(self, epochs):
        for epoch in range(len(self.losses) // len(self.data), epochs):
            self.run_epoch(epoch)


def main(epochs):
    init_process_group("gloo")
    torch.manual_seed(1)
    model, data = torch.nn.Linear(20, 1), Numbers()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
    trainer = Trainer(model, DataLoader(data, batch_size=8, sampler=DistributedSampler(data)), optimizer)
    trainer.train(epochs)
    if trainer.rank == 0:
        with open(os.environ["TRAINWRIGHT_CHECKPOINT_DIRECTORY"] + "/result", "w") as file:
            print(*trainer.losses, file=file)
    torch.distributed.barrier()
    destroy_process_group()


main(4)
"""
"""PyTorch's DDP tutorial (pytorch/examples, distributed/ddp-tutorial-series/multinode.py), and our lines to save and stop it."""

RUNS = [
    Run(run="ddp", workload={"kind": "script", "command": ["python", "/app/ddp.py"]},
        files={"/app/ddp.py": TUTORIAL}, **COMMON),
    Run(run="function", workload=FunctionWorkload(count, {"steps": 60}), **COMMON),
]  # fmt: skip
