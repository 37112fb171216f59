"""Takes the place of a container's runtime: starts the command, and when that ends nothing of the container is left.

A container's processes end with its first one, because the kernel ends the whole process namespace. Here this small program is
the parent instead: it adopts orphans, hands SIGTERM and SIGINT on to the command, and kills every descendant when the command
ends, or when standard input closes. Its other end is held by the rehearsal alone, so that a rehearsal that dies in any way ends
its pods too.

Run as ``python -I -S container_init.py COMMAND...``: it imports nothing of this package, to start in milliseconds. Exits with the
command's code, 128 + N if signal N ended it, 128 where it cannot be started, as container runtimes report them.
"""

import contextlib
import os
import select
import signal
import sys
import time

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
START_ERROR = 128
KILLED = 128 + int(signal.SIGKILL)
SWEEP_SECONDS = 5.0
FORWARDED = (int(signal.SIGTERM), int(signal.SIGINT))


def main(command: list[str]) -> int:
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    woken, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK) if hasattr(os, "pipe2") else _pipe()
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in (*FORWARDED, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)  # the wake-up descriptor says which
    child = start(command)
    while True:
        ready, _, _ = select.select([woken, 0], [], [])
        if 0 in ready and not os.read(0, 4096):
            sweep(child)
            return KILLED
        numbers = os.read(woken, 4096) if woken in ready else b""
        for number in numbers:
            if number in FORWARDED:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, number)
        status = reap(child)
        if status is not None:
            sweep(child)
            return status if status >= 0 else 128 - status


def _pipe() -> tuple[int, int]:
    ends = os.pipe()
    for end in ends:
        os.set_blocking(end, False)
    return ends


def start(command: list[str]) -> int:
    """Fork, and become the command in the child: a process group of its own, no input, tied to this process's life."""
    parent = os.getpid()
    child = os.fork()
    if child:
        return child
    try:
        os.setsid()
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the request was in place
            os._exit(KILLED)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)  # Python ignores them, and what is ignored stays so across an exec
        os.execv(command[0], command)  # noqa: S606 - that is the job
    except OSError as error:
        os.write(2, f'failed to start: exec: "{command[0]}": {error.strerror}\n'.encode())
    finally:
        os._exit(START_ERROR)


def prctl(option: int, value: int) -> None:
    """Linux only; elsewhere the process group and standard input have to be enough."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def reap(child: int) -> int | None:
    """Collect every process that has ended. Returns the command's exit status (negative for a signal) if it is among them."""
    found = None
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == child:
                found = os.waitstatus_to_exitcode(status)
    return found


def sweep(child: int) -> None:
    """Kill the command's process group, then every other descendant, until none is left."""
    deadline = time.monotonic() + SWEEP_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)
        for pid in children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.01)


def children() -> list[int]:
    """Children of this process. Their orphans become ours, so that a few rounds find every descendant."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as listing:
            return [int(pid) for pid in listing.read().split()]
    except OSError:
        return []


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
