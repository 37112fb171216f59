"""A pod of an elastic run that is told to end, at moments that a test of real pods does not meet."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.processes import PATIENCE_SECONDS
from tests.trainer.contract.specifications import C10D, SCRIPT, changed

from trainwright_trainer.contract import ExitCode, RunSpec
from trainwright_trainer.contract.spec_file import Specification
from trainwright_trainer.observe.metrics import Measurements
from trainwright_trainer.supervisor.launchers.elastic import ElasticRole
from trainwright_trainer.supervisor.pod.launcher import Setting
from trainwright_trainer.supervisor.pod.outcome import PodOutcome
from trainwright_trainer.supervisor.run.history import History

UNNUMBERED = {"world.node_index_env": None, "world.control_port": None}


def elastic_role() -> ElasticRole:
    spec = RunSpec.model_validate(changed({**UNNUMBERED, "world.rendezvous": C10D, "work": SCRIPT}))
    return ElasticRole(Setting({}, Specification(Path("/run.json"), "a" * 64, spec), (), None, Measurements()))


def test_told_to_end_while_it_looks_for_the_marker(monkeypatch: pytest.MonkeyPatch) -> None:
    """The volume may take a minute, and others much longer to come."""
    async def outcome() -> PodOutcome:
        asked, answered = asyncio.Event(), asyncio.Event()

        async def is_complete(history: History) -> bool:
            asked.set()
            await answered.wait()
            return False

        monkeypatch.setattr(History, "is_complete", is_complete)
        role = elastic_role()
        ends = asyncio.ensure_future(role.run_to_end())
        await asked.wait()
        role.told_to_end("SIGTERM")
        answered.set()
        return await ends

    monkeypatch.setattr(ElasticRole, "_start_program", lambda role: pytest.fail("it meets the others"))
    ended = asyncio.run(asyncio.wait_for(outcome(), PATIENCE_SECONDS))
    assert ended.code is ExitCode.PREEMPTED_NOT_SAVED
