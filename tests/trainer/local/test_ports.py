"""Ports for runs of one machine that begin at once."""

from __future__ import annotations

import socket

from trainwright_trainer.local import free_ports, own_port


def test_no_two_ports_are_one() -> None:
    for _ in range(20):
        assert len(set(free_ports(3))) == 3


def test_a_port_that_somebody_listens_at_is_replaced() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        wanted = taken.getsockname()[1]
        with own_port(wanted) as port:
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
