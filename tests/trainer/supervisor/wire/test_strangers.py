"""Whoever is no pod of this attempt is logged and dropped, whatever it says, and the run goes on."""

from __future__ import annotations

import hashlib
import json
import resource
import signal
import socket
import struct
from collections.abc import Iterable
from pathlib import Path

from tests.processes import wait_until
from tests.trainer.supervisor.conftest import NewRun
from tests.trainer.supervisor.pods import PodProcess, Run

from trainwright_trainer import __version__
from trainwright_trainer.contract import ExitCode, RunSpec
from trainwright_trainer.rank.software import installed
from trainwright_trainer.supervisor.wire.control import MAX_LINE_BYTES, SPARE_CONNECTIONS


def dial(run: Run, leader: PodProcess) -> socket.socket:
    return socket.create_connection((leader.address, run.spec.world.control_port), timeout=60)


def answers(connection: socket.socket) -> list[str]:
    """What node 0 says until it closes, by type."""
    try:
        return [json.loads(line)["type"] for line in connection.makefile("rb")]
    except ConnectionResetError:
        return []


def lines(*messages: dict[str, object]) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


def join_of(run: Run, **changed: object) -> dict[str, object]:
    """With everything right that can be known from Git."""
    sha256 = hashlib.sha256(next(run.directory.glob("*-run.json")).read_bytes()).hexdigest()
    return {
        "type": "join", "node": 1, "host": "pod-1", "sha256": sha256, "version": __version__, "identity": run.spec.identity,
        **changed,
    }


def words_of_strangers(run: Run) -> Iterable[bytes]:
    knock: dict[str, object] = {"type": "knock", "identity": run.spec.identity}
    yield b"GET / HTTP/1.1\r\n\r\n"
    yield b"\x00" * (3 * MAX_LINE_BYTES)
    yield b"[" * 60_000 + b"\n"
    yield lines({"type": "ping"}, {"type": "bye", "code": 0})
    yield lines({"type": "join", "node": 99})
    yield lines(join_of(run, sha256="0" * 64))
    yield lines(join_of(run, sha256="0" * 64, identity=None))
    yield lines(join_of(run))
    yield lines(join_of(run, identity=None, versions=dict(installed())))
    yield lines(knock | {"identity": "other-9f8e7d"}, join_of(run))
    yield lines(knock, join_of(run, attempt="0123456789ab"))
    yield lines(knock, {"type": "end_requested", "why": "a stranger says so"})


def bother(run: Run, leader: PodProcess) -> None:
    before = sum(event["event"] == "connection_dropped" for event in leader.log())
    words = list(words_of_strangers(run))
    for word in words:
        with dial(run, leader) as connection:
            connection.sendall(word)
            assert set(answers(connection)) <= {"ping", "challenge"}
    with dial(run, leader) as connection:  # closing resets it
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    dropped = before + len(words)
    wait_until(lambda: sum(event["event"] == "connection_dropped" for event in leader.log()) >= dropped, "strangers dropped")


def test_strangers_at_a_run_that_gathers_and_at_one_that_trains(new_run: NewRun) -> None:
    run = new_run(nodes=2)
    run.plans = {"*": "finish:100000"}
    leader = run.start(0)
    leader.wait_for_event("waiting_for_peers")
    bother(run, leader)
    half_open = [dial(run, leader) for _ in range(2)]
    run.start(1)
    run.wait_for_training()
    bother(run, leader)
    assert [set(answers(connection)) for connection in half_open] == [{"ping"}] * 2, "dropped in the end"
    leader.process.send_signal(signal.SIGTERM)
    assert run.wait() == [ExitCode.PREEMPTED_SAVED] * 2, run.logs()


def test_more_connections_than_descriptors(new_run: NewRun) -> None:
    run = new_run(nodes=2)
    leader = run.start(0)
    leader.wait_for_event("waiting_for_peers")
    _, hard = resource.prlimit(leader.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(leader.process.pid, resource.RLIMIT_NOFILE, (SPARE_CONNECTIONS + 40, hard))
    leader.process.send_signal(signal.SIGSTOP)  # else it may drop some before others come
    strangers = [dial(run, leader) for _ in range(2 * SPARE_CONNECTIONS)]
    leader.process.send_signal(signal.SIGCONT)
    leader.wait_for_event("connection_not_accepted")
    leader.wait_for_event("connection_dropped")
    run.start(1)
    assert run.wait() == [0, 0], run.logs()
    for stranger in strangers:
        stranger.close()


def test_a_pod_of_another_run_behind_an_address_that_was_used_before(new_run: NewRun) -> None:
    """Neither run ends: its name server still tells it where its node 0 was."""
    run = new_run(nodes=2)
    leader = run.start(0)
    leader.wait_for_event("waiting_for_peers")
    stray = run.start(1, spec=run.spec.model_copy(update={
        "identity": "other-9f8e7d", "lifecycle": run.spec.lifecycle.model_copy(update={"peer_wait_seconds": 4}),
    }))
    assert stray.wait_for_event("not_node_0")["reason"] == "its connection ended"
    assert leader.wait_for_event("connection_dropped")["reason"] == "it looks for other-9f8e7d"
    run.start(1)
    assert run.wait() == [0, ExitCode.PEERS_NEVER_CAME, 0], run.logs()
    cause = stray.message().cause
    assert cause is not None
    assert cause.message.startswith("node 0 did not come within 4 s: ")


def test_a_pod_that_does_not_know_the_secret(new_run: NewRun) -> None:
    """Whatever it knows beside it, its node 0's answer to somebody else among that."""
    run = new_run(nodes=2)
    for name, content in (("control", b"0123456789abcdef"), ("other", b"fedcba9876543210")):
        (run.directory / name).write_bytes(content)
    run.spec, impostor = with_secret(run.spec, run.directory / "control"), with_secret(run.spec, run.directory / "other", 3)
    leader = run.start(0)
    leader.wait_for_event("waiting_for_peers")
    stray = run.start(1, spec=impostor)
    assert stray.wait_for_event("not_node_0")["reason"] == "it did not prove that it knows the run's secret"
    with dial(run, leader) as connection:
        connection.sendall(lines({"type": "knock", "identity": run.spec.identity, "nonce": "00"}))
        said = (json.loads(line) for line in connection.makefile("rb"))
        challenge = next(line for line in said if line["type"] == "challenge")
        connection.sendall(lines(join_of(run, attempt=challenge["attempt"], proof=challenge["proof"])))
        assert {line["type"] for line in said} <= {"ping"}
    reasons = [event["reason"] for event in leader.log() if event["event"] == "connection_dropped"]
    assert "it did not prove that it knows the run's secret" in reasons
    run.start(1)
    assert run.wait() == [0, ExitCode.PEERS_NEVER_CAME, 0], run.logs()


def with_secret(spec: RunSpec, path: Path, peer_wait_seconds: float = 60) -> RunSpec:
    document = spec.model_dump()
    document["world"]["control_secret"] = str(path)
    document["lifecycle"]["peer_wait_seconds"] = peer_wait_seconds
    return RunSpec.model_validate(document)
