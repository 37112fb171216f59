"""One rank of a peer: ``python benchmarks/train_peer.py PEER SPECIFICATION``, with torchrun's variables where there are several.

Trains what the specification says, logs as our trainer does, and scores the held-out batches at the end.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

from peers.work import Work

if __name__ == "__main__":
    name, path = sys.argv[1:]
    work = Work.open(Path(path), os.environ)
    work.evaluate(importlib.import_module(f"peers.{name}").train(work))
    sys.stdout.flush()
    os._exit(0)  # as our ranks do: nothing after the last line is measured
