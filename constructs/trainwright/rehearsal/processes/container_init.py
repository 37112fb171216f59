"""Takes the place of a container's runtime: starts the command, and when that ends nothing of the container is left.

A container's processes end with its first one, because the kernel ends the whole process namespace. Here this small program is
the parent instead: it adopts orphans, hands SIGTERM and SIGINT on to the command, and kills every descendant when the command
ends, or when standard input closes. Its other end is held by the rehearsal alone, which writes the numbers of signals into it, so
that a rehearsal that dies in any way ends its pods too.

Run as ``python -I -S container_init.py PLACE COMMAND...``: it imports nothing of this package, to start in milliseconds. PLACE is
what a pod has of its own, as JSON, or empty where it shares all with this machine
(:class:`trainwright.rehearsal.processes.place.Place`). Exits with the command's code, 128 + N if signal N ended it, 128 where it
cannot be started, as container runtimes report them.
"""

import contextlib
import json
import os
import select
import signal
import socket
import struct
import sys
import time

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWUSER, CLONE_NEWNET = 0x00020000, 0x04000000, 0x10000000, 0x40000000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY = 442, -100, 0x8000, 0x1
"""mount_setattr(2), which has one number on all machines, and came with Linux 5.12."""
KERNEL_FILES = ("/proc", "/dev/shm")  # noqa: S108 - path inside the container
"""A pod may write there also where its root is read-only."""
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
START_ERROR = 128
KILLED = 128 + int(signal.SIGKILL)
SWEEP_SECONDS = 5.0
FORWARDED = (int(signal.SIGTERM), int(signal.SIGINT))


def main(place: str, command: list[str]) -> int:
    own = json.loads(place) if place else {}
    user = own.pop("user", None)
    if own:
        try:
            enter(**own)
        except OSError as error:
            os.write(2, f"this machine gives the pod no place of its own: {error.strerror}\n".encode())
            return START_ERROR
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    woken, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK) if hasattr(os, "pipe2") else _pipe()
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in (*FORWARDED, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)  # the wake-up descriptor says which
    child = start(command, user)
    while True:
        ready, _, _ = select.select([woken, 0], [], [])
        told = os.read(0, 4096) if 0 in ready else b""
        if 0 in ready and not told:
            sweep(child)
            return KILLED
        numbers = told + (os.read(woken, 4096) if woken in ready else b"")
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


def enter(
    namespaces: list[int], host_name: str, files: dict[str, str], read_only: list[str], writable: list[str], sealed: bool,
    directory: str,
) -> None:
    """Go where the pod is: its network, host name and files."""
    for descriptor, kind in zip(namespaces, (CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWNET), strict=True):
        call("setns", descriptor, kind)
        os.close(descriptor)
    call("unshare", CLONE_NEWNS | CLONE_NEWUTS)
    socket.sethostname(host_name)
    call("mount", None, b"/", None, MS_REC | MS_PRIVATE, None)
    for path, source in (*files.items(), *((folder, folder) for folder in (*read_only, *writable))):
        call("mount", source.encode(), path.encode(), None, MS_BIND | MS_REC, None)
    for folder in ("/", *read_only) if sealed else read_only:
        set_read_only(folder, True, AT_RECURSIVE)
    for folder in (*writable, *KERNEL_FILES) if sealed else ():
        set_read_only(folder, False)
    os.chdir(directory)


def set_read_only(path: str, to: bool, flags: int = 0) -> None:
    change = struct.pack("QQQQ", MOUNT_ATTR_RDONLY if to else 0, 0 if to else MOUNT_ATTR_RDONLY, 0, 0)
    call("syscall", MOUNT_SETATTR, AT_FDCWD, path.encode(), flags, change, len(change))


def become(uid: int, gid: int) -> None:
    """Another user in the pod's eyes, by a user namespace: to this machine it stays the caller, who owns the pod's files."""
    outside = os.geteuid(), os.getegid()
    call("unshare", CLONE_NEWUSER)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {outside[0]} 1"), ("gid_map", f"{gid} {outside[1]} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


def start(command: list[str], user: list[int] | None) -> int:
    """Fork, and become the command in the child: a process group of its own, no input, tied to this process's life."""
    parent = os.getpid()
    child = os.fork()
    if child:
        return child
    try:
        os.setsid()
        if user:
            become(*user)
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
        call("prctl", option, value, 0, 0, 0)


def call(name: str, *arguments: bytes | int | None) -> None:
    """A function of libc's that tells by -1 that it failed."""
    import ctypes

    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


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
    sys.exit(main(sys.argv[1], sys.argv[2:]))
