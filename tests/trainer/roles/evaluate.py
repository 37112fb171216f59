"""What the image has at /app/evaluate.py: it waits for the checkpoint, reads it, and ends."""

import os
import time
from pathlib import Path

checkpoint = Path(os.environ["TRAINWRIGHT_CHECKPOINT_DIRECTORY"]) / "total"
while not checkpoint.exists():
    time.sleep(0.05)
print(f"the total is {checkpoint.read_text()}; rank 0 was at {os.environ['MASTER_ADDR']}")
