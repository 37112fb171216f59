"""The conformance suite's runs, with mpirun to start the ranks."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import pytest
from tests.conformance_record import watch
from tests.conformance_suite import leave_to_the_night
from tests.engines.horovod.rank_process import run_rank
from tests.engines.processes import QUIET, ROOT
from tests.engines.ranks import LAST_SECONDS
from tests.processes import PATIENCE_SECONDS, own_network
from tests.trainer.supervisor.mpi_pods import MPIRun
from tests.trainer.supervisor.pods import from_nothing
from tests.trainer.training import conftest as harness
from tests.trainer.training.conformance import hard
from tests.trainer.training.conftest import Spec

from trainwright_trainer.commands.local import free_ports
from trainwright_trainer.contract import RunSpec
from trainwright_trainer.rank.messages import ATTEMPT_ENV
from trainwright_trainer.training.witness import WITNESS_ENV, StepSamples, read_account

STAND_IN = Path(__file__).with_name("stand_in.py")
MPIRUN = [
    "mpirun", "--oversubscribe", "--bind-to", "none", "--mca", "btl_tcp_if_include", "lo",
    *(["--allow-run-as-root"] if os.geteuid() == 0 else []),
]
PROGRAM = "trainwright_trainer.rank"

plain_spec = pytest.fixture(scope="session", name="plain_spec")(harness.build_spec)
rank_server, finished, uninterrupted = harness.rank_server, harness.finished, harness.uninterrupted


@dataclass
class Rank:
    """A rank that has ended."""

    number: int
    output: Path

    def code(self) -> int | None:
        """None of one that was killed."""
        said = self.output.with_suffix(".code")
        return int(said.read_text()) if said.exists() else None

    def events(self, name: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.output.read_text().splitlines() if line.startswith("{")]
        return [line for line in lines if line["event"] == name]

    def samples(self) -> dict[int, tuple[int, ...]]:
        """Ids of the samples that it computed each step from."""
        return {account.step: account.ids for account in read_account(self.output.parent, self.number, StepSamples)}


class Ranks:
    """Runs in a folder, one after the other."""

    def __init__(self, context: ForkServerContext, folder: Path) -> None:
        self._context, self._folder = context, folder

    def finish(
        self, spec: dict[str, Any], code: int = 0, instead: Mapping[int, dict[str, Any]] | None = None,
        told: Mapping[str, str] | None = None,
    ) -> list[Rank]:
        """Run until the end, and expect this code of every rank.

        ``instead`` has other specifications, by rank, and ``told`` what else is in the environment.
        """
        number = len(list(self._folder.iterdir()))
        run, size = self._folder / f"run-{number}", RunSpec.model_validate(spec).world.size
        run.mkdir()
        for rank in range(size):
            (run / f"run-{rank}.json").write_text(json.dumps((instead or {}).get(rank, spec)))
        environment = {
            **os.environ, **QUIET, ATTEMPT_ENV: f"attempt-{number}-{secrets.token_hex(4)}", WITNESS_ENV: f"samples:{run}",
            "PYTHONPATH": str(ROOT), **(told or {}),
        }
        with socket.create_server(("127.0.0.1", 0)) as server, ExitStack() as stand_ins:
            server.settimeout(PATIENCE_SECONDS)
            port = server.getsockname()[1]
            command = [*MPIRUN, "-np", str(size), sys.executable, "-I", "-S", str(STAND_IN), str(port)]
            # It complains of ranks that end without MPI_Finalize, as those that fail do; what counts is their codes.
            mpirun = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            processes = []
            for _ in range(size):
                stand_in = stand_ins.enter_context(server.accept()[0])
                given = json.loads(stand_in.makefile("rb").readline())
                processes.append(self._context.Process(target=run_rank, args=(given, run), daemon=True))
                processes[-1].start()
            deadline = time.monotonic() + PATIENCE_SECONDS
            for process in processes:
                process.join(max(0.0, deadline - time.monotonic()))
            for process in processes:
                process.join(LAST_SECONDS)
                process.kill()
        mpirun.wait(PATIENCE_SECONDS)
        ranks = [Rank(rank, run / f"rank-{rank}.log") for rank in range(size)]
        codes = [rank.code() for rank in ranks]
        assert codes == [code] * size, f"they end with {codes}:\n" + "\n".join(rank.output.read_text() for rank in ranks)
        return ranks


def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    leave_to_the_night(items)
    watch(config, Path(__file__).parent, items)


@pytest.fixture(scope="session")
def preloaded() -> list[str]:
    return ["trainwright_trainer.training.assembly", "horovod.torch"]


@pytest.fixture
def ranks(rank_server: ForkServerContext, tmp_path_factory: pytest.TempPathFactory) -> Ranks:
    return Ranks(rank_server, tmp_path_factory.mktemp("ranks"))


@pytest.fixture(scope="session")
def session_ranks(rank_server: ForkServerContext, tmp_path_factory: pytest.TempPathFactory) -> Ranks:
    return Ranks(rank_server, tmp_path_factory.mktemp("session-ranks"))


@pytest.fixture(scope="session", params=["horovod"])
def engine(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="session")
def spec(plain_spec: Spec) -> Spec:
    """A run of digits whose ranks mpirun starts."""

    def build(directory: Path, *, world: int = 2, **work: Any) -> dict[str, Any]:
        built = plain_spec(directory, world=world, **work)
        meeting = {"kind": "mpi-hostfile", "role_env": "TRAINWRIGHT_ROLE", "hostfile": "/etc/mpi/hostfile"}
        built["world"] = {"nodes": 1, "processes_per_node": world, "device": "cpu", "rendezvous": meeting}
        return built

    return build


NewRun = Callable[[int], MPIRun]


@pytest.fixture
def new_run(spec: Spec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NewRun]:
    """Makes a run of two hosts with a rank each, which save after so many steps: a real mpirun, sshd and supervisors."""
    for name, value in QUIET.items():
        monkeypatch.setenv(name, value)
    runs: list[MPIRun] = []

    def make(every_steps: int) -> MPIRun:
        base = own_network()
        http, rendezvous = free_ports(2)
        described = hard(spec, tmp_path / "lineage", "horovod")
        described["work"]["checkpoints"]["every_steps"] = every_steps
        described["http_port"] = http
        described["world"] |= {
            "nodes": 2, "processes_per_node": 1,
            "rendezvous": {
                "kind": "mpi-hostfile", "role_env": "K_MPI_JOB_ROLE", "hostfile": str(tmp_path / "hostfile"), "host": f"{base}2",
                "port": rendezvous,
            },
        }
        (tmp_path / "pods").mkdir()
        run = MPIRun(tmp_path / "pods", RunSpec.model_validate(described), base, begin=from_nothing)
        run.rank = (sys.executable, "-m", PROGRAM)
        run.options = [word for name in QUIET for word in ("-x", name)]
        runs.append(run)
        return run

    yield make
    for run in runs:
        run.clean_up()
