"""Real ranks as real processes: forked from one server that has imported torch, so that a run of two starts in a second."""

from __future__ import annotations

import json
import multiprocessing
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any

import pytest
from tests.conformance_record import watch
from tests.conformance_suite import is_taken, leave_to_the_night

from trainwright_trainer.commands.local import free_port
from trainwright_trainer.contract import RunSpec
from trainwright_trainer.contract.layout import SPEC_ENV
from trainwright_trainer.rank.messages import (
    ATTEMPT_ENV,
    FROM_RANK,
    Act,
    At,
    Carry,
    Committed,
    Heartbeat,
    Measured,
    Pace,
    Pause,
    PhaseChanged,
    Result,
    Wanted,
)
from trainwright_trainer.training.witness import WITNESS_ENV, StepSamples, read_account

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(ROOT))  # multiprocessing hands this path to the children, which import the module below by name

pytest.register_assert_rewrite("tests.trainer.training.conformance")

from tests.processes import PATIENCE_SECONDS  # noqa: E402
from tests.trainer.training.conformance import hard  # noqa: E402
from tests.trainer.training.rank_process import run_rank  # noqa: E402

LAST_SECONDS = 10.0
"""For each rank that has not ended by then: others may have used up the patience, and it is on its way out."""

Message = PhaseChanged | Measured | Committed | Heartbeat | Pace | At | Wanted | Result


@dataclass
class Rank:
    """A running rank, and the test's end of its link if it has one."""

    number: int
    attempt: str
    process: ForkServerProcess
    output: Path
    link: socket.socket | None
    messages: list[Message] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)
    listener: threading.Thread | None = None

    def begin_to_listen(self) -> None:
        self.listener = threading.Thread(target=self._listen, daemon=True)
        self.listener.start()

    def _listen(self) -> None:
        assert self.link is not None
        for line in self.link.makefile("rb"):
            with self.changed:
                self.messages.append(FROM_RANK.validate_json(line))
                self.changed.notify_all()

    def say(self, message: Pause | Act | Carry) -> None:
        assert self.link is not None
        self.link.sendall(message.model_dump_json().encode() + b"\n")

    def wait_for(self, wanted: Callable[[Message], bool]) -> Message:
        def found() -> Message | None:
            return next((message for message in self.messages if wanted(message)), None)

        with self.changed:
            message = self.changed.wait_for(found, timeout=PATIENCE_SECONDS)
        assert message is not None, f"rank {self.number} never said it:\n{self.output.read_text()}"
        return message

    def code(self) -> int:
        """Once it has ended, and all that it said has been heard."""
        self.process.join(PATIENCE_SECONDS)
        assert self.process.exitcode is not None, f"rank {self.number} still runs:\n{self.output.read_text()}"
        if self.listener is not None:
            self.listener.join(PATIENCE_SECONDS)  # its last words may still be on the line when the process is gone
        return self.process.exitcode

    def events(self, name: str) -> list[dict[str, Any]]:
        """What it logged under this name. A last line that is not whole yet is left out."""
        whole = self.output.read_text().rpartition("\n")[0]
        lines = [json.loads(line) for line in whole.splitlines() if line.startswith("{")]
        return [line for line in lines if line["event"] == name]

    def samples(self) -> dict[int, tuple[int, ...]]:
        """Ids of the samples that it computed each step from."""
        return {account.step: account.ids for account in read_account(self.output.parent, self.number, StepSamples)}

    def kill(self) -> None:
        self.process.kill()
        self.process.join()


class Ranks:
    """Starts runs; whatever still lives at the end of a test is killed."""

    def __init__(self, context: ForkServerContext, folder: Path) -> None:
        self._context, self._folder = context, folder
        self._started: list[Rank] = []

    def start(
        self, spec: dict[str, Any], *, linked: bool = False, instead: Mapping[int, dict[str, Any]] | None = None,
        told: Mapping[str, str] | None = None,
    ) -> list[Rank]:
        """One process per rank of the specification, in the order of ranks.

        ``instead`` has the specification of ranks that are given another one, by their number, and ``told`` what a supervisor
        says in the environment of this attempt.
        """
        number = len(self._started)
        run = self._folder / f"run-{number}"
        run.mkdir()
        world = RunSpec.model_validate(spec).world
        attempt, ranks = f"attempt-{number}-{secrets.token_hex(4)}", []
        for rank in range(world.size):
            path = run / f"run-{rank}.json"
            path.write_text(json.dumps((instead or {}).get(rank, spec)))
            ours, theirs = socket.socketpair() if linked else (None, None)
            environment = {
                SPEC_ENV: str(path), ATTEMPT_ENV: attempt, WITNESS_ENV: f"samples:{run}",
                "RANK": str(rank), "WORLD_SIZE": str(world.size), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(world.size),
                "GROUP_RANK": "0", "GROUP_WORLD_SIZE": "1",
                "MASTER_ADDR": world.meeting.host, "MASTER_PORT": str(world.meeting.port), **(told or {}),
            }
            output = run / f"rank-{rank}.log"
            output.touch()
            process = self._context.Process(target=run_rank, args=(environment, str(output), theirs), daemon=True)
            process.start()
            if theirs is not None:
                theirs.close()
            ranks.append(Rank(rank, attempt, process, output, ours))
        self._started += ranks
        for started in ranks:
            if started.link is not None:
                started.begin_to_listen()
        return ranks

    def finish(
        self, spec: dict[str, Any], code: int = 0, instead: Mapping[int, dict[str, Any]] | None = None,
        told: Mapping[str, str] | None = None,
    ) -> list[Rank]:
        """Start, wait for the end, and expect this code of every rank."""
        ranks = self.start(spec, instead=instead, told=told)
        deadline = time.monotonic() + PATIENCE_SECONDS
        for rank in ranks:
            rank.process.join(max(0.0, deadline - time.monotonic()))
        for rank in ranks:
            rank.process.join(LAST_SECONDS)
        codes = [rank.process.exitcode for rank in ranks]  # None of one that still runs
        outputs = "\n".join(f"rank {rank.number}: {rank.output.read_text()}" for rank in ranks)
        assert codes == [code] * len(ranks), f"they end with {codes}:\n{outputs}"
        return ranks

    def close(self) -> None:
        for rank in self._started:
            rank.process.kill()
            rank.process.join()
            if rank.link is not None:
                rank.link.close()


@pytest.fixture(scope="session")
def preloaded() -> list[str]:
    """What every rank imports, and takes seconds."""
    return ["trainwright_trainer.training.assembly"]


@pytest.fixture(scope="session")
def rank_server(preloaded: list[str]) -> Iterator[ForkServerContext]:
    with pytest.MonkeyPatch.context() as environment:
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
            environment.setenv(name, "1")
        environment.setenv("GLOO_SOCKET_IFNAME", "lo")
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(preloaded)
        yield context


@pytest.fixture
def ranks(rank_server: ForkServerContext, tmp_path: Path) -> Iterator[Ranks]:
    running = Ranks(rank_server, tmp_path)
    yield running
    running.close()


@pytest.fixture(scope="session")
def session_ranks(rank_server: ForkServerContext, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranks]:
    running = Ranks(rank_server, tmp_path_factory.mktemp("ranks"))
    yield running
    running.close()


Spec = Callable[..., dict[str, Any]]


def build_spec() -> Spec:
    """A small run of digits in JSON; keywords replace keys of ``work``."""

    def build(directory: Path, *, world: int = 2, **work: Any) -> dict[str, Any]:
        return {
            "api_version": "trainer.trainwright.dev/v1",
            "run": "digits",
            "identity": "digits-1",
            "world": {
                "nodes": 1, "processes_per_node": world, "device": "cpu", "node_index_env": "JOB_COMPLETION_INDEX",
                "rendezvous": {"kind": "static", "host": "127.0.0.1", "port": free_port()}, "control_port": 29400,
            },
            "lifecycle": {"grace_seconds": 600, "save_seconds": 5},
            "http_port": 9400,
            "work": {
                "kind": "trainer",
                "engine": "ddp",
                "task": "image-classification",
                "model": {
                    "architecture": "vit", "image_size": 8, "patch_size": 4, "num_channels": 1, "hidden_size": 32,
                    "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "num_labels": 10,
                },
                "data": {"source": "digits"},
                "batch": {"micro": 16},
                "optimizer": {"kind": "adamw"},
                "learning_rate": {"peak": 0.003, "warmup_samples": 64},
                "duration": {"steps": 12},
                "clip_norm": 1.0,
                "precision": "fp32",
                "checkpoints": {"directory": str(directory), "every_steps": 4},
                "evaluation": {"max_batches": 2},
                "log_every_steps": 1,
                **work,
            },
        }

    return build


spec = pytest.fixture(scope="session", name="spec")(build_spec)


@dataclass(frozen=True)
class Finished:
    """A run that was not disturbed."""

    directory: Path
    ranks: list[Rank]


def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    """Leave out what an engine does not take. Items of the whole session come here."""
    left_out = [item for item in items if item.path.parent == HERE and not is_taken(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
    leave_to_the_night(items)
    watch(config, HERE, items)


@pytest.fixture(scope="session", params=["ddp", "fsdp2"])
def engine(request: pytest.FixtureRequest) -> str:
    """Engines that need torch alone. The others have environments of their own, and this fixture anew: ``tests/engines``."""
    name: str = request.param
    return name


@pytest.fixture(scope="session")
def finished(session_ranks: Ranks, spec: Spec, engine: str, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """A run with settings that a resume could get wrong."""
    directory = tmp_path_factory.mktemp("finished") / "lineage"
    return Finished(directory, session_ranks.finish(hard(spec, directory, engine)))


@pytest.fixture(scope="session")
def uninterrupted(finished: Finished) -> Path:
    """Its directory."""
    return finished.directory
