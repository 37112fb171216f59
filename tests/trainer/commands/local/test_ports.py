"""Ports for runs of one machine that begin at once."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from trainwright_trainer.commands.local import free_port, free_ports, own_port, ports


def test_no_two_ports_are_one() -> None:
    for _ in range(20):
        assert len(set(free_ports(3))) == 3


def test_no_other_process_is_given_them() -> None:
    """Nor does the kernel give them to a connection, which would hold it from the server that it was chosen for."""
    ours = free_ports(ports.BLOCK_SIZE // 2)  # others may have some of its block
    assert max(ours) < 32_768
    program = "from trainwright_trainer.commands.local import ports; print(*ports.free_ports(ports.BLOCK_SIZE // 2))"
    theirs = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not set(ours) & set(map(int, theirs.stdout.split()))


@pytest.mark.parametrize(("given", "end"), [
    ("32768\t60999\n", 32_768),
    ("49152\t65535\n", 32_768),
    ("28000\t60999\n", 28_000),
    ("20128\t60999\n", 20_128),
    ("20127\t60999\n", 32_768),
    ("1024\t65535\n", 32_768),
    ("", 32_768),
    (None, 32_768),
])
def test_ports_that_the_system_gives_to_anybody_are_left_alone(
    given: str | None, end: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless that leaves none, or the system does not say."""
    told = tmp_path / "ip_local_port_range"
    if given is not None:
        told.write_text(given)
    monkeypatch.setattr(ports, "_GIVEN_TO_ANYBODY", told)
    assert end - ports.BLOCK_SIZE < ports.blocks()[-1] + ports.BLOCK_SIZE <= end


def test_a_port_is_not_given_again_soon() -> None:
    """Its server may not listen yet."""
    assert len({free_port() for _ in range(50)}) == 50


def test_that_all_are_taken_is_said() -> None:
    with pytest.raises(OSError, match="1000 ports are wanted"):
        free_ports(1000)


def test_a_port_that_somebody_listens_at_is_replaced() -> None:
    wanted = free_port()  # no other process is given it meanwhile
    with socket.create_server(("127.0.0.1", wanted)), own_port(wanted) as port:
        assert port != wanted
    with own_port(wanted) as port:
        assert port == wanted


def test_of_runs_that_begin_at_once_one_gets_the_port() -> None:
    """Neither listens yet."""
    [wanted] = free_ports(1)
    with own_port(wanted) as first, own_port(wanted) as second, own_port(wanted) as third:
        assert first == wanted
        assert len({first, second, third}) == 3
        with socket.create_server(("127.0.0.1", first)):
            pass  # whoever holds it can listen there
    with own_port(wanted) as port:
        assert port == wanted
