"""Waits until mpirun can start its ranks: every host has an address, and its sshd answers."""

from __future__ import annotations

import asyncio
import re
import shlex
import socket
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise

from trainwright_trainer.contract.exit_codes import ExitCode
from trainwright_trainer.observe.log import get_log
from trainwright_trainer.supervisor.daemon_thread import in_daemon_thread
from trainwright_trainer.supervisor.refusal import Refusal

USUAL_PORT = 22
RETRY_SECONDS = 0.5
BANNER_SECONDS = 5.0
AT_ONCE = 64
"""Hosts that are tried at the same time."""
_OPTIONS = ("plm_rsh_args", "-bootstrap-exec-args")
_VARIABLES = ("HYDRA_LAUNCHER_EXTRA_ARGS", "OMPI_MCA_plm_rsh_args")
_NAMED = 20


def ssh_port(program: Sequence[str], environ: Mapping[str, str]) -> int:
    """On which sshd listens, by the options of ssh that mpirun is given; 22 where they do not say."""
    given = [value for option, value in pairwise(program) if option in _OPTIONS]
    given += [environ[name] for name in _VARIABLES if name in environ]
    for options in given:
        for word, following in pairwise([*shlex.split(options), ""]):
            if found := re.fullmatch(r"-p\s*(\d+)|-oPort=(\d+)|Port=(\d+)", f"-p{following}" if word == "-p" else word):
                return int(next(filter(None, found.groups())))
    return USUAL_PORT


async def all_reachable(hosts: Sequence[str], port: int, own: str, seconds: float) -> None:
    """Return once each of ``hosts`` answers as an ssh server does and this pod's ``own`` name has an address.

    Raises :class:`Refusal` with PEERS_NEVER_CAME, naming those that did not within so many seconds.
    """
    loop, turn = asyncio.get_running_loop(), asyncio.Semaphore(AT_ONCE)
    deadline, reasons = loop.time() + seconds, dict[str, str]()

    async def wait_for(host: str, look: partial[None]) -> None:
        while True:
            async with turn:
                try:
                    await asyncio.wait_for(in_daemon_thread(look), BANNER_SECONDS + 1)
                    reasons.pop(host, None)
                    return
                except TimeoutError:
                    reasons[host] = "no answer"
                except OSError as error:  # not resolved yet, refused, unreachable: its pod may still be pending
                    reasons[host] = error.strerror or str(error)
            if loop.time() >= deadline:
                return
            await asyncio.sleep(min(RETRY_SECONDS, max(0.0, deadline - loop.time())))

    get_log().info("waiting_for_sshd", hosts=len(hosts), port=port, seconds=seconds)
    looks = [wait_for(host, partial(_greet, host, port)) for host in hosts]
    await asyncio.gather(*looks, wait_for(own, partial(_resolve, own)))
    if reasons:
        names = ", ".join(f"{host} ({reason})" for host, reason in sorted(reasons.items())[:_NAMED])
        more = " and others" if len(reasons) > _NAMED else ""
        get_log().error("peers_never_came", missing=sorted(reasons), seconds=seconds)
        message = f"not reachable on port {port} within {seconds:g} s: {names}{more}; see whether their pods are scheduled"
        raise Refusal(ExitCode.PEERS_NEVER_CAME, "PeersNeverCame", message)


def _resolve(host: str) -> None:
    socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)


def _greet(host: str, port: int) -> None:
    """The server speaks first (RFC 4253, 4.2)."""
    with socket.create_connection((host, port), timeout=BANNER_SECONDS) as connection:
        if not connection.recv(255).startswith(b"SSH"):
            raise OSError("no ssh server answers there")
