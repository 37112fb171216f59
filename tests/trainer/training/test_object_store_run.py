"""Runs whose checkpoints are on an object store, from real supervisors to a real S3 server: the same promises as on a volume.

At every change, ``tests/trainer/checkpoint`` kills writers over such a store.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.trainer.checkpoint.conftest import BUCKET, fresh_clients, s3_environment, serve_s3  # noqa: F401  a fixture
from tests.trainer.training.conformance import EVERY, STEPS, hard, newest
from tests.trainer.training.conftest import Spec
from tests.trainer.training.test_phases import LONG_ENOUGH, Start, start  # noqa: F401  a fixture

from trainwright_trainer.checkpoint import CheckpointStore, read_complete
from trainwright_trainer.commands.export.run import Request, export
from trainwright_trainer.contract import ExitCode

pytestmark = [pytest.mark.slow, pytest.mark.nightly]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    yield from serve_s3()


@pytest.fixture
def address(server: str, engine: str, fresh_clients: None, monkeypatch: pytest.MonkeyPatch) -> str:  # noqa: F811
    for name, value in s3_environment(server).items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/{engine}/lineage"


def test_a_run_that_was_told_to_end_goes_on_to_the_bits_of_one_on_a_volume(
    start: Start, spec: Spec, engine: str, address: str, uninterrupted: Path, tmp_path: Path  # noqa: F811
) -> None:
    work = hard(spec, tmp_path, engine)["work"]
    work["checkpoints"]["directory"] = address
    run = start("step", "*", LONG_ENOUGH, **work)
    first = run.pods[0]
    first.process.send_signal(signal.SIGTERM)
    assert first.wait() == ExitCode.PREEMPTED_SAVED, run.logs()
    store = CheckpointStore(address)
    [saved] = store.records()
    assert first.message().committed_step == saved.step
    assert 0 < saved.step < EVERY

    run.environment["SLOW"] = "step:nobody:0"
    second = run.start(0)
    assert second.wait() == ExitCode.DONE, run.logs()
    restored = second.heard("restored")
    assert restored is not None
    assert restored["step"] == saved.step
    assert second.message().attempts == 2
    complete = read_complete(address)
    assert complete is not None
    assert complete.step == STEPS
    assert set(store.records()[0].files) == set(newest(uninterrupted).files)  # names, sizes and digests
    assert exported(address, tmp_path / "from-store") == exported(str(uninterrupted), tmp_path / "from-volume")


def exported(checkpoints: str, output: Path) -> dict[str, bytes]:
    """Every file of the newest checkpoint's export."""
    assert export(Request(checkpoints, output, Path("/none"))).step == STEPS
    return {path.name: path.read_bytes() for path in output.iterdir()}
