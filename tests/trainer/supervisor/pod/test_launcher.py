"""The environment of a rank."""

from __future__ import annotations

from pathlib import Path

from tests.trainer.supervisor.conftest import specification

from trainwright_trainer.contract.layout import RANK_ENVIRONMENT, SPEC_ENV
from trainwright_trainer.rank.messages import ATTEMPT_ENV, RESUME_BEFORE_ENV
from trainwright_trainer.run.link import LINK_FD_ENV
from trainwright_trainer.supervisor.pod.launcher import attempt_variables, rank_environment


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


def test_an_attempt_that_passes_over_the_newest_commit(tmp_path: Path) -> None:
    assert attempt_variables("abc", None) == {ATTEMPT_ENV: "abc"}
    assert attempt_variables("abc", 40) == {ATTEMPT_ENV: "abc", RESUME_BEFORE_ENV: "40"}
    world = specification(tmp_path, 1, 1, None, "127.0.0.").world
    found = rank_environment(
        {}, world, node=0, local_rank=0, attempt="abc", specification=Path("/run.json"), link=9, resume_before=40
    )
    assert found[RESUME_BEFORE_ENV] == "40"
