"""A loop as Ray Train's own guide writes it, whose functions are the adapter's, with torch's collectives between the ranks."""

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist

from trainwright_trainer.adapters import ray_train as train

STEPS = 100
RESULT = f"ends with {json.dumps([3.0 * step for step in range(1, STEPS + 1)])}"
"""Of two ranks, however often they were interrupted."""


def main() -> None:
    dist.init_process_group("gloo")
    rank, found = train.get_context().get_world_rank(), train.get_checkpoint()
    sums: list[float] = []
    if found is not None:
        with found.as_directory() as folder:
            sums = json.loads(Path(folder, "sums.json").read_text())
    print(f"rank {rank} begins at step {len(sums)}", flush=True)
    for step in range(len(sums) + 1, STEPS + 1):
        total = torch.tensor(float(step * (rank + 1)))
        dist.all_reduce(total)
        sums.append(total.item())
        if not Path(os.environ.get("GO", "/nowhere")).exists():
            time.sleep(0.1)
        checkpoint, saves = None, train.should_stop() or step % 5 == 0
        if saves and rank == 0:
            folder = tempfile.mkdtemp()
            Path(folder, "sums.json").write_text(json.dumps(sums))
            checkpoint = train.Checkpoint.from_directory(folder)
        train.report({"loss": 1 / step}, checkpoint=checkpoint)
    print(f"rank {rank} ends with {json.dumps(sums)}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
