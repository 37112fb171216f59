"""Processes that are forked from one that has loaded what they run: a start from nothing takes longer than most of them do."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path

_server, _loaded = get_context("forkserver"), list[str]()


def preload(*modules: str) -> None:
    """What the process has loaded that all are forked from, beside what others ask for. Of no effect once it runs."""
    _loaded.extend(modules)
    _server.set_forkserver_preload(_loaded)


class Forked:
    """A process that calls a function, which pickle finds by its name. It answers to the names of :class:`subprocess.Popen`."""

    def __init__(self, function: Callable[..., object], *arguments: object) -> None:
        self._process = _server.Process(target=function, args=arguments, daemon=True)
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired([self._process.name], timeout or 0)
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def become(environment: Mapping[str, str], stdout: Path, stderr: Path) -> None:
    """In the new process: the environment, and files in place of the inherited input and output."""
    opened = {path: os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644) for path in (Path(os.devnull), stdout, stderr)}
    for number, path in enumerate((Path(os.devnull), stdout, stderr)):
        os.dup2(opened[path], number)
    for handle in opened.values():
        os.close(handle)
    os.environ.clear()
    os.environ.update(environment)
