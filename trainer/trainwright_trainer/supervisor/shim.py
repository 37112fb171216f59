"""Shim between supervisor and rank: asks the kernel to kill this process with its parent, then becomes the rank.

The request must be made inside the child. A ``preexec_fn`` would run Python between fork and exec of a process that has threads,
which can deadlock; a few lines that run after the exec cannot. The kernel keeps the request across the next exec. It is tied to
the *thread* that forked: the supervisor spawns ranks from its main thread only, which lives as long as the process.

Run as ``python -I -S shim.py PARENT_PID COMMAND...``: it imports nothing of this package, to start in milliseconds.
"""

import os
import signal
import sys

TYPE_CHECKING = False  # typing and collections.abc would take longer to import than all the rest
if TYPE_CHECKING:
    from collections.abc import Sequence

PR_SET_PDEATHSIG = 1


def tied(command: "Sequence[str]") -> list[str]:
    """The command line of a child that runs ``command``, and is killed when this process ends."""
    return [*started(), str(os.getpid()), *command]


def started() -> list[str]:
    """How this program is started, before the parent's process id and the command."""
    from trainwright_trainer.supervisor.interpreter import interpreter  # for the supervisor: the shim itself imports nothing

    return [*interpreter(), "-I", "-S", __file__]


def main(arguments: list[str]) -> None:
    """Never returns. Exits 127 where the command cannot be started, as a shell does."""
    parent, command = int(arguments[0]), arguments[1:]
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it died before the request was in place
            sys.exit(1)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)  # Python ignores them, and what is ignored stays so across an exec
    try:
        os.execvp(command[0], command)  # noqa: S606 - that is the job
    except OSError as error:
        print(f"cannot start {command[0]}: {error.strerror}", file=sys.stderr)
        sys.exit(127)


if __name__ == "__main__":
    main(sys.argv[1:])
