"""Probes, polled for real on the pod's address."""

from __future__ import annotations

import asyncio
import http.client
import ssl
from collections.abc import Mapping

from trainwright.rehearsal.container import LocalProcess
from trainwright.rehearsal.kinds import Exec, HttpGet, Probe, TcpSocket

PortNumbers = Mapping[str, int]
"""Container ports by name."""


async def attempt(probe: Probe, address: str, ports: PortNumbers, local: LocalProcess) -> str | None:
    """Poll once. None for a pass, else why not, in the kubelet's words."""
    timeout = probe.timeout_seconds
    try:
        if probe.http_get is not None:
            return await asyncio.to_thread(_http_get, probe.http_get, address, _number(probe.http_get.port, ports), timeout)
        if probe.tcp_socket is not None:
            return await _connect(probe.tcp_socket, address, _number(probe.tcp_socket.port, ports), timeout)
        return await _execute(probe.exec or Exec(), local, timeout)
    except TimeoutError:
        return f"no answer within {timeout} s"


def _number(port: int | str, ports: PortNumbers) -> int:
    return port if isinstance(port, int) else ports[port]


def _http_get(get: HttpGet, address: str, port: int, timeout: int) -> str | None:
    host = get.host or address
    connection = (
        http.client.HTTPSConnection(host, port, timeout=timeout, context=_unverified())
        if get.scheme == "HTTPS" else http.client.HTTPConnection(host, port, timeout=timeout)
    )
    try:
        connection.request("GET", get.path, headers={header.name: header.value for header in get.http_headers})
        status = connection.getresponse().status
    except TimeoutError:
        return f"{host}:{port}{get.path}: no answer within {timeout} s"
    except (OSError, http.client.HTTPException) as error:
        return f"{host}:{port}{get.path}: {_words(error)}"
    finally:
        connection.close()
    return None if 200 <= status < 400 else f"{host}:{port}{get.path}: HTTP probe failed with statuscode: {status}"


def _unverified() -> ssl.SSLContext:
    """The kubelet verifies no certificate of a probe either."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def _connect(target: TcpSocket, address: str, port: int, timeout: int) -> str | None:
    host = target.host or address
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(host, port), timeout)
    except OSError as error:
        return f"{host}:{port}: {_words(error)}"
    writer.close()
    return None


async def _execute(target: Exec, local: LocalProcess, timeout: int) -> str | None:
    try:
        process = await asyncio.create_subprocess_exec(
            *map(local.rewrite, target.command), env=dict(local.environment), cwd=local.directory,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError as error:
        return f"command {' '.join(target.command)}: {_words(error)}"
    try:
        code = await asyncio.wait_for(process.wait(), timeout)
    finally:
        if process.returncode is None:
            process.kill()
    return f"command {' '.join(target.command)} exited with {code}" if code else None


def _words(error: BaseException) -> str:
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()
