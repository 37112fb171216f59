"""The child's side of the harness: a rank in a process that was forked with TensorFlow imported already."""

from __future__ import annotations

import os
import socket
from typing import NoReturn

from trainwright_trainer.run.link import LINK_FD_ENV
from trainwright_trainer.tensorflow.program import TENSORFLOW
from trainwright_trainer.training.program import main


def run_rank(environment: dict[str, str], output: str, link: socket.socket) -> NoReturn:
    """Become a rank: its own environment, its output in a file, its end of the link as an inherited descriptor."""
    os.environ.update(environment)
    os.environ[LINK_FD_ENV] = str(link.detach())
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    main(TENSORFLOW)
