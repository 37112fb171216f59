"""Stacks of a rank's threads: a rank writes them when it is asked, and its supervisor reads where the main thread is.

``faulthandler`` writes them, into a file in memory that the supervisor holds.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from dataclasses import dataclass

from trainwright_trainer.run.link import MAIN_THREAD

_MOST_BYTES = 1 << 20
_THREAD = re.compile(r"^(?:Current thread|Thread) (0x[0-9a-f]+)")
_FRAME = re.compile(r'^  File "(?P<file>[^"]*)", line (?P<line>\d+) in (?P<function>.*)$')
WAITS_FOR_OTHERS = (
    "/torch/distributed/", "/torch/cuda/streams.py", "/torch/cuda/__init__.py", "/torch/autograd/graph.py",
    "/deepspeed/comm/", "/horovod/", "/mpi4py/", "/xgboost/collective.py", "/tensorflow/python/distribute/",
    "/tensorflow/python/eager/",
)
"""Parts of a path. Code there that does not go on waits for a collective: DDP's and FSDP's run inside the backward pass, which is
``torch/autograd/graph.py``, TensorFlow's inside a compiled function, and a GPU is waited for by synchronizing with it."""
_XGBOOST, _ROUNDS = "/xgboost/core.py", ("update", "boost", "eval_set")
"""XGBoost's run inside a round; the same file reads tables, which waits for nobody."""
WAITS_FOR_A_THREAD = ("/threading.py", "/queue.py", "/concurrent/futures/_base.py")


@dataclass(frozen=True, slots=True)
class Frame:
    """Where a thread is."""

    file: str
    line: int
    function: str

    @property
    def waits_for_others(self) -> bool:
        boosts = _XGBOOST in self.file and self.function in _ROUNDS
        return boosts or any(part in self.file for part in WAITS_FOR_OTHERS)

    def __str__(self) -> str:
        """Short, for a sentence: ``threading.py:629 in wait``."""
        return f"{os.path.basename(self.file)}:{self.line} in {self.function}"


class StackFile:
    """A file in memory that a rank writes to and its supervisor reads. Needs no disk: that may be what hangs."""

    def __init__(self) -> None:
        if sys.platform == "linux":
            self.descriptor = os.memfd_create("trainwright-stacks", os.MFD_CLOEXEC)
        else:
            self.descriptor, path = tempfile.mkstemp(prefix="trainwright-stacks-")
            os.unlink(path)

    def read(self) -> str:
        """All that was written. Empty for a rank that has not come far enough to be asked, and once closed."""
        if self.descriptor < 0:
            return ""
        return os.pread(self.descriptor, _MOST_BYTES, 0).decode(errors="replace")

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def main_thread_frame(text: str) -> Frame | None:
    """Where the main thread is, by the newest stacks of a file; None where they do not show it.

    Where it waits for another thread, the code that waits says more than Python's own threading module.
    """
    main, thread, frames = "", "", list[Frame]()
    for line in text.splitlines():
        if line.startswith(MAIN_THREAD):
            main = line.rpartition(" ")[2]
        elif header := _THREAD.match(line):
            thread = header[1]
            frames = [] if thread == main else frames
        elif thread == main and (frame := _FRAME.match(line)):
            frames.append(Frame(frame["file"], int(frame["line"]), frame["function"]))
    telling = [frame for frame in frames if not frame.file.endswith(WAITS_FOR_A_THREAD)]
    return next(iter(telling or frames), None)
