"""One container as a local process: start, output, end."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from trainwright.rehearsal.container import LocalProcess
from trainwright.rehearsal.kinds import Container
from trainwright.rehearsal.log_pump import LogPump
from trainwright.rehearsal.pod_end import ContainerEnd

INIT = Path(__file__).with_name("container_init.py")
MESSAGE_BYTES = 4096
OUTPUT_SECONDS = 2.0
"""How long output may stay open after the end; the descendants that could hold it are killed."""


class ContainerRun:
    def __init__(self, container: Container, process: LocalProcess, on_line: Callable[[str], None]) -> None:
        self.container, self.local = container, process
        self._pump = LogPump(process.log, on_line)
        self._process: asyncio.subprocess.Process | None = None
        self._kill: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int:
        """Of the process that stands for the container's runtime; the command is its child."""
        return self._started.pid

    @property
    def _started(self) -> asyncio.subprocess.Process:
        if self._process is None:
            raise RuntimeError(f"container {self.container.name} is not started")
        return self._process

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", str(INIT), *self.local.command,
            stdin=asyncio.subprocess.PIPE,  # its end ends the container: see container_init.py
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=dict(self.local.environment),
            cwd=self.local.directory,
            start_new_session=True,  # the terminal's Ctrl-C is for the rehearsal, which tells the pods
        )

    async def wait(self) -> ContainerEnd:
        """Follow the output until the container has ended."""
        process = self._started
        if process.stdout is None:
            raise RuntimeError("the output is not piped")
        pump = asyncio.create_task(self._pump.run(process.stdout))
        try:
            code = await process.wait()
            with suppress(TimeoutError):
                await asyncio.wait_for(pump, OUTPUT_SECONDS)
        finally:
            pump.cancel()
            if self._kill is not None:
                self._kill.cancel()
        code = code if code >= 0 else 128 - code
        return ContainerEnd(self.container.name, code, self._message(code))

    def terminate(self, grace_seconds: float) -> None:
        """SIGTERM now, SIGKILL after the grace period. A second call changes nothing."""
        if self._kill is None and self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGTERM)
            self._kill = asyncio.create_task(self._kill_after(grace_seconds))

    def kill(self) -> None:
        """SIGKILL to everything in the container."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    async def _kill_after(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self.kill()

    def _message(self, code: int) -> str:
        text = self.local.termination_message.read_bytes()[:MESSAGE_BYTES].decode(errors="replace")
        if not text and code and self.container.termination_message_policy == "FallbackToLogsOnError":
            return self._pump.tail
        return text
