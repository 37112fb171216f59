"""A script of one rank, with the supervisor's library, and torch's collectives between the ranks."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist

from trainwright_trainer import run

STEPS = 100


def main() -> None:
    dist.init_process_group("gloo")
    rank, found = run.world.rank, run.checkpoints.newest()
    sums: list[float] = json.loads((found.path / f"rank-{rank}.json").read_text()) if found else []
    print(f"rank {rank} begins at step {len(sums)}", flush=True)
    for step in range(len(sums) + 1, STEPS + 1):
        total = torch.tensor(float(step * (rank + 1)))
        dist.all_reduce(total)
        sums.append(total.item())
        if not Path(os.environ.get("GO", "/nowhere")).exists():
            time.sleep(0.1)
        run.step(step, loss=1 / step, samples=step)
        stop = run.should_stop()
        if stop or step % 5 == 0:
            (run.checkpoints.draft() / f"rank-{rank}.json").write_text(json.dumps(sums))
            run.checkpoints.commit(step)
        if stop:
            run.stopped()
    if rank == 0:
        Path(os.environ["TRAINWRIGHT_CHECKPOINT_DIRECTORY"], "result").write_text(json.dumps(sums))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
