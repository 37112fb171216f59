"""The child's side of the rank harness: importable by name, so that multiprocessing can start it."""

from __future__ import annotations

import os
import socket
from typing import NoReturn

import torch

from trainwright_trainer import rank
from trainwright_trainer.lifecycle.messages import LINK_FD_ENV


def run_rank(environment: dict[str, str], output: str, link: socket.socket | None) -> NoReturn:
    """Become a rank: its own environment, its output in a file, its end of the link as an inherited descriptor."""
    os.environ.update(environment)
    if link is not None:
        os.environ[LINK_FD_ENV] = str(link.detach())
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    torch.set_num_threads(1)
    rank.main()
