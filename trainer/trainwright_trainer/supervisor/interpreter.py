"""This Python, as a command: what starts a program of ours beside the supervisor, here or, under mpirun, in another pod."""

from __future__ import annotations

import os
import sys

from trainwright_trainer.contract.layout import brought_python


def interpreter() -> tuple[str, ...]:
    """Its words, before ``-m MODULE``. One that a pod brought along starts by its own loader: the image may have none, or
    another C library's.
    """
    brought = brought_python(sys.prefix)
    return brought if os.path.exists(brought[0]) else (sys.executable,)
