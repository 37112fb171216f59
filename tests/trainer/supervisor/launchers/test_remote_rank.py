"""Ranks that a launcher starts, and strangers on its port: real parents of ranks, and a real listener."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.processes import own_network

from trainwright_trainer.contract import ExitCode
from trainwright_trainer.supervisor.launchers.mpi import _parents_of_ranks
from trainwright_trainer.supervisor.launchers.program import Credentials, RankListener, RemoteRank
from trainwright_trainer.supervisor.launchers.remote_rank import DIAL_ENV, PARENT_MODULE, Hello, Welcome, keep_alive

STRANGERS = (
    b"GET / HTTP/1.1\r\n\r\n", b"\x00" * (3 << 20), b'{"type":"exited","status":0}\n',
    b'{"type":"hello","proof":"","rank":0,"size":1,"local_rank":0,"host":"stranger"}\n',
    b'{"type":"call","nonce":"00"}\n{"type":"hello","proof":"","rank":0,"size":1,"local_rank":0,"host":"stranger"}\n',
)


class Launcher:
    """What the launcher's supervisor does with its listener, for one rank."""

    def __init__(self, secret: Path) -> None:
        address = f"{own_network()}1"
        self.rank = RemoteRank(0, lambda rank, message: None, lambda: None)
        self.statuses: list[int] = []
        self.lost = 0
        self.listener = RankListener(
            address, address, Credentials("run-1a2b3c", "attempt", str(secret)), 1, self._greet,
            lambda rank, status: self.statuses.append(status), self._lost, lambda host: None,
        )

    def _greet(self, hello: Hello) -> tuple[RemoteRank, Welcome]:
        return self.rank, Welcome(environment={"LOCAL_WORLD_SIZE": "1"})

    def _lost(self, rank: RemoteRank) -> None:
        self.lost += 1


async def parent(dial: str) -> tuple[int, str]:
    """Exit status and last words of the parent of a rank that ends at once."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", PARENT_MODULE, sys.executable, "-c", "import sys; sys.exit(7)", stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", DIAL_ENV: dial},
    )
    _, words = await process.communicate()
    return process.returncode or 0, words.decode()


async def until_closed(where: str, words: bytes) -> bytes:
    _, host, port, *_ = where.split("/")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(words)
        return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "id_rsa"
    path.write_bytes(os.urandom(32).hex().encode())
    return path


def test_strangers_are_dropped_and_the_rank_is_heard(secret: Path) -> None:
    async def run() -> Launcher:
        launcher = Launcher(secret)
        for words in STRANGERS:
            answer = await until_closed(launcher.listener.address, words)
            assert b"welcome" not in answer
        half_open = [asyncio.create_task(until_closed(launcher.listener.address, b"")) for _ in range(70)]
        assert await parent(launcher.listener.address) == (0, "")
        launcher.listener.close()
        await asyncio.gather(*half_open)
        return launcher

    launcher = asyncio.run(run())
    assert (launcher.statuses, launcher.lost) == ([7], 0)


@pytest.mark.parametrize("change", [
    lambda dial, secret: dial.replace(dial[:8], "01234567", 1),
    lambda dial, secret: dial.replace("run-1a2b3c", "run-9f8e7d"),
    lambda dial, secret: dial.replace(str(secret), str(secret.with_name("other"))),
], ids=["another token", "another run", "another secret"])
def test_neither_end_takes_another_for_its_own(secret: Path, change: Callable[[str, Path], str]) -> None:
    secret.with_name("other").write_bytes(b"another secret of another run")

    async def run() -> tuple[int, str]:
        return await parent(change(Launcher(secret).listener.address, secret))

    code, words = asyncio.run(run())
    assert code == ExitCode.INTERNAL
    assert "who answers there is not the supervisor of run-" in words


def test_a_stranger_who_welcomes_a_rank_is_not_obeyed() -> None:
    """An environment decides what a process loads."""
    async def welcome(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        for message in ({"type": "answer", "attempt": "a", "nonce": "n", "proof": "0"}, {"type": "welcome", "environment": {}}):
            writer.write(json.dumps(message).encode() + b"\n")
        await reader.read()
        writer.close()

    async def run() -> tuple[int, str]:
        server = await asyncio.start_server(welcome, sock=socket.create_server(("127.0.0.1", 0)))
        async with server:
            return await parent(f"token/127.0.0.1/{server.sockets[0].getsockname()[1]}/run-1a2b3c")

    code, words = asyncio.run(run())
    assert (code, "is not the supervisor of run-1a2b3c" in words) == (ExitCode.INTERNAL, True)


def test_a_machine_that_is_gone_is_noticed_as_soon_while_data_is_on_its_way_to_it() -> None:
    with socket.socket() as endpoint:
        keep_alive(endpoint)
        options = socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT, socket.TCP_USER_TIMEOUT
        idle, interval, count, milliseconds = (endpoint.getsockopt(socket.IPPROTO_TCP, option) for option in options)
        assert milliseconds == 1000 * (idle + interval * count)


def test_a_process_that_ends_meanwhile_hides_no_parent_of_a_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker's pod looks for them when it is told to end, while processes come and go."""
    command, read = ["sh", "-c", "read line", PARENT_MODULE], Path.read_bytes
    gone = 0

    def read_what_is_there(path: Path) -> bytes:
        if path == Path(f"/proc/{gone}/cmdline"):
            raise FileNotFoundError
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", read_what_is_there)
    with subprocess.Popen(command, stdin=subprocess.PIPE) as one, subprocess.Popen(command, stdin=subprocess.PIPE) as other:
        assert {one.pid, other.pid} <= {*_parents_of_ranks()}
        gone = one.pid
        assert other.pid in _parents_of_ranks()
        gone = other.pid
        assert one.pid in _parents_of_ranks()
