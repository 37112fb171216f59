"""What the image has at /app/train.py: ranks that meet as their launcher tells them to, and add up their numbers."""

import json
import os

import torch
from torch import distributed

distributed.init_process_group("gloo")
rank, total = distributed.get_rank(), torch.tensor(distributed.get_rank() + 1)
distributed.all_reduce(total)
report = json.dumps({"rank": rank, "local": int(os.environ["LOCAL_RANK"]), "of": distributed.get_world_size(), "sum": int(total)})
os.write(1, f"{report}\n".encode())  # at once: ranks share this pipe
distributed.destroy_process_group()
