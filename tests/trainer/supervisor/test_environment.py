"""The environment of a rank."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.trainer.supervisor.conftest import specification

from trainwright_trainer.contract.layout import RANK_ENVIRONMENT, SPEC_ENV
from trainwright_trainer.lifecycle.messages import ATTEMPT_ENV, LINK_FD_ENV
from trainwright_trainer.supervisor import environment
from trainwright_trainer.supervisor.environment import available_cpus, rank_environment


def test_everything_a_rank_reads(tmp_path: Path) -> None:
    world = specification(tmp_path, 4, 2, None, "127.0.0.").world
    found = rank_environment(
        {"PATH": "/bin", "RANK": "77"}, world, node=3, local_rank=1, attempt="abc", specification=Path("/run.json"), link=9
    )
    assert set(found) == {"PATH", "OMP_NUM_THREADS", SPEC_ENV, ATTEMPT_ENV, LINK_FD_ENV, *RANK_ENVIRONMENT}
    assert (found["RANK"], found["LOCAL_RANK"], found["WORLD_SIZE"], found["GROUP_RANK"]) == ("7", "1", "8", "3")
    assert (found[SPEC_ENV], found[ATTEMPT_ENV], found[LINK_FD_ENV]) == ("/run.json", "abc", "9")


def test_a_choice_of_threads_is_kept(tmp_path: Path) -> None:
    world = specification(tmp_path, 1, 1, None, "127.0.0.").world
    found = rank_environment(
        {"OMP_NUM_THREADS": "13"}, world, node=0, local_rank=0, attempt="abc", specification=Path("/run.json"), link=9
    )
    assert found["OMP_NUM_THREADS"] == "13"


@pytest.mark.parametrize(("quota", "cpus"), [("max 100000", None), ("50000 100000", 1), ("100000 100000", 1), ("nonsense", None)])
def test_a_cpu_limit_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str, cpus: int | None) -> None:
    monkeypatch.setattr(environment, "_CPU_QUOTA", tmp_path / "none")
    unlimited = available_cpus()
    (tmp_path / "cpu.max").write_text(quota)
    monkeypatch.setattr(environment, "_CPU_QUOTA", tmp_path / "cpu.max")
    assert available_cpus() == (unlimited if cpus is None else cpus)
