"""What ranks are forked from: a process that has imported what takes long, and belongs to no attempt.

``python -m trainwright_trainer.rank.template DESCRIPTOR``, as a child of the supervisor. The descriptor is a socket of packets.
It says ``ready``; each packet that comes is one JSON object, variables of a rank, with the descriptors of its link and of the
file for its stacks; the rank answers with its process id. It leads a group of its own, and is a child of the supervisor, which
adopts it as process 1 or a subreaper. No connection and no context of a GPU exists before, or nothing is forked. Where the
socket is closed, nobody needs more ranks.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import socket
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from trainwright_trainer.contract.spec_file import read_specification, specification_path
from trainwright_trainer.contract.training import Training
from trainwright_trainer.observe.log import configure, get_log
from trainwright_trainer.rank import __main__ as rank
from trainwright_trainer.rank.messages import TEMPLATE_READY
from trainwright_trainer.rank.place import place_from
from trainwright_trainer.run.link import LINK_FD_ENV, STACKS_FD_ENV

PR_SET_PDEATHSIG = 1
MOST_BYTES = 1 << 16
"""Of a packet."""


class Request(NamedTuple):
    """A rank that is wanted."""

    variables: dict[str, str]
    link: int
    stacks: int


def main(descriptor: int) -> None:
    """Import, and then fork the ranks that are asked for. Each of them trains, and does not return."""
    supervisor = os.getppid()
    rank.settle()
    spec = read_specification(specification_path(os.environ)).spec
    configure(spec.run, spec.identity, None, place_from(os.environ, spec.world).node)
    for name in _modules(spec.work):
        with suppress(Exception):  # the rank itself says what its image lacks
            import_module(name)
    if devices := _devices():
        get_log().warning("template_of_no_use", reason=f"its libraries opened {devices[0]}, which does not outlive a fork")
        return
    warnings.filterwarnings("ignore", ".*multi-threaded", DeprecationWarning)  # threads of a BLAS, which ends them before a fork
    gc.freeze()  # what is shared stays shared when ranks collect their garbage
    get_log().info("template_ready")
    with socket.socket(fileno=descriptor) as line:
        line.send(TEMPLATE_READY)
        while (request := _next(line)) is not None:
            if _forked(line, supervisor):
                break
            os.close(request.link)
            os.close(request.stacks)
    if request is not None:
        os.environ.update(request.variables, **{LINK_FD_ENV: str(request.link), STACKS_FD_ENV: str(request.stacks)})
        if "numpy.random" in sys.modules:  # Python's own generator is seeded anew by the fork
            sys.modules["numpy.random"].seed()
        rank.main()


def _modules(work: object) -> Iterator[str]:
    """What a rank of this work imports before its first step. None of another engine, which may look at a GPU."""
    yield "trainwright_trainer.training.assembly"  # torch, and transformers
    if isinstance(work, Training) and work.engine in ("ddp", "fsdp2"):
        yield f"trainwright_trainer.engine.{work.engine}"
        if name := getattr(work.model, "architecture", None):
            yield f"transformers.models.{name}.modeling_{name}"


def _devices() -> list[str]:
    """Of GPUs, that this process has open."""
    opened = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # that of the folder itself
            opened.append(os.readlink(descriptor))
    return [path for path in opened if path.startswith(("/dev/nvidia", "/dev/kfd"))]


def _next(line: socket.socket) -> Request | None:
    words, descriptors, *_ = socket.recv_fds(line, MOST_BYTES, 2)
    return Request(json.loads(words), *descriptors) if words else None


def _forked(line: socket.socket, supervisor: int) -> bool:
    """Fork a rank whose parent is the supervisor, and which tells it so. True in the rank.

    Ends this process where the machine has none left: then nothing answers, and the supervisor sees the end of the line at once.
    """
    if between := os.fork():
        if os.waitpid(between, 0)[1] != 0:
            sys.exit("cannot fork a rank: the limit on processes may be reached; the supervisor starts it instead")
        return False
    between = os.getpid()
    try:
        child = os.fork()
    except OSError:
        os._exit(1)
    if child:
        os._exit(0)
    os.setsid()
    while os.getppid() == between:  # its parent's end makes it the supervisor's child
        time.sleep(0.001)
    _end_with(supervisor)
    line.send(str(os.getpid()).encode())
    return True


def _end_with(parent: int) -> None:
    """Be killed when the parent ends, as :mod:`trainwright_trainer.supervisor.shim` arranges for what it starts."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


if __name__ == "__main__":
    main(int(sys.argv[1]))
