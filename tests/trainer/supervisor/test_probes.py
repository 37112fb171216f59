"""The port for probes and metrics, and those who hold connections to it open."""

from __future__ import annotations

import socket
import threading
import urllib.request
from http.server import ThreadingHTTPServer

import pytest
from tests.processes import wait_until

from trainwright_trainer.observe.metrics import Measurements
from trainwright_trainer.supervisor.supervise import MOST_CLIENTS, serve_probes


def test_connections_that_ask_nothing_take_no_thread_for_long_and_no_place_from_a_probe() -> None:
    before = threading.active_count()
    with serve_probes("127.0.0.1", 0, Measurements()) as server:
        address = (str(server.server_address[0]), server.server_port)
        idle = [socket.create_connection(address, timeout=5) for _ in range(5 * MOST_CLIENTS)]
        for path in ("/livez", "/metrics"):
            with urllib.request.urlopen(f"http://{address[0]}:{address[1]}{path}", timeout=5) as answer:
                assert answer.status == 200
        assert idle[0].recv(1) == b"", "the oldest was let go"
        wait_until(lambda: threading.active_count() <= before + 1 + MOST_CLIENTS, "threads of the others ended")
        server.shutdown()
    for connection in idle:
        connection.close()


def test_a_probe_that_comes_with_many_others_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody accepts meanwhile."""
    monkeypatch.setattr(ThreadingHTTPServer, "serve_forever", lambda server: None)
    with serve_probes("127.0.0.1", 0, Measurements()) as server:
        for _ in range(5 * MOST_CLIENTS):
            socket.create_connection((str(server.server_address[0]), server.server_port), timeout=5).close()
