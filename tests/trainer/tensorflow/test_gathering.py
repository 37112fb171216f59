"""Workers that wait for each other, in threads of this process."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress

import pytest

from trainwright_trainer.commands.local import free_ports
from trainwright_trainer.tensorflow.gathering import PortTakenError, WorkersNeverCameError, gather

HERE = "127.0.0.1"


def addresses(count: int) -> list[str]:
    return [f"{HERE}:{port}" for port in free_ports(count)]


def test_nobody_leaves_before_all_have_met() -> None:
    where, left = addresses(3), dict[int, float]()

    def worker(rank: int, delay: float) -> None:
        time.sleep(delay)
        gather(where, rank, HERE, 60)
        left[rank] = time.monotonic()

    started = time.monotonic()
    threads = [threading.Thread(target=worker, args=(rank, delay)) for rank, delay in enumerate((0, 0.3, 1))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert min(left.values()) - started >= 1
    assert len(left) == 3
    for address in where:  # the ports are free for TensorFlow
        socket.create_server((HERE, int(address.rpartition(":")[2]))).close()


@pytest.mark.slow
def test_somebody_never_comes() -> None:
    where = addresses(3)

    def another() -> None:
        with suppress(WorkersNeverCameError):
            gather(where, 1, HERE, 8)

    other = threading.Thread(target=another)
    other.start()
    with pytest.raises(WorkersNeverCameError) as refusal:
        gather(where, 0, HERE, 8)
    other.join()
    assert str(refusal.value).startswith(f"not all workers came within 8 s: nothing was heard of {where[2]}; look at")


def test_another_server_is_no_worker() -> None:
    where = addresses(2)
    with socket.create_server((HERE, int(where[1].rpartition(":")[2]))) as stranger:
        threading.Thread(target=lambda: stranger.accept()[0].sendall(b"HTTP/2\n"), daemon=True).start()
        with pytest.raises(WorkersNeverCameError, match=where[1]):
            gather(where, 0, HERE, 1)


def test_a_stranger_at_the_door() -> None:
    where = addresses(2)

    def knock() -> None:
        time.sleep(0.2)
        for line in (b"", b"trainwright worker 7\n", b"x" * 1000):
            with socket.create_connection((HERE, int(where[0].rpartition(":")[2]))) as connection:
                connection.sendall(line)

    threading.Thread(target=knock, daemon=True).start()
    with pytest.raises(WorkersNeverCameError):
        gather(where, 0, HERE, 1)


def test_the_port_is_taken() -> None:
    where = addresses(2)
    port = int(where[0].rpartition(":")[2])
    with socket.create_server((HERE, port)), pytest.raises(PortTakenError, match="Address already in use"):
        gather(where, 0, HERE, 1)
