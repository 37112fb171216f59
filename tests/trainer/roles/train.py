"""What the image has at /app/train.py: ranks that read from the data service, add up what they got, and leave a checkpoint."""

import os
from pathlib import Path
from urllib.request import urlopen

import torch
from torch import distributed

distributed.init_process_group("gloo")
rank = distributed.get_rank()
hosts = os.environ["DATA_SERVICE_HOSTS"].split(",")
with urlopen(f"http://{hosts[rank % len(hosts)]}:7000/") as answer:
    total = torch.tensor(sum(map(int, answer.read().split())))
distributed.all_reduce(total)
if rank == 0:
    folder = Path(os.environ["TRAINWRIGHT_CHECKPOINT_DIRECTORY"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "new").write_text(str(int(total)))
    (folder / "new").rename(folder / "total")
os.write(1, f"rank {rank} has {int(total)}\n".encode())  # at once: ranks share this pipe
distributed.destroy_process_group()
