"""Scripts that speak to the supervisor by ``trainwright_trainer.run``."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import textwrap
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.processes import wait_until
from tests.trainer.supervisor.conftest import NewRun
from tests.trainer.supervisor.pods import Run

import trainwright_trainer
from trainwright_trainer.checkpoint import read_complete
from trainwright_trainer.contract import ExitCode
from trainwright_trainer.run.hand import PREEMPTED_NOT_SAVED, PREEMPTED_SAVED

OF_TORCH = pytest.mark.skipif(find_spec("torch") is None, reason="DDP is torch's")
STEPS = """
    import os, sys, time
    from trainwright_trainer import run
    assert not {"torch", "pydantic"} & set(sys.modules)
    folder, pause = sys.argv[1], 0.002 * (1 + run.world.rank)
    n = 0
    while not run.should_stop():
        n += 1
        time.sleep(pause)
        run.step(n, loss=1 / n, samples=8 * n, learning_rate=0.5)
        if n == 1:
            open(os.path.join(folder, f"steps-{run.world.rank}"), "w").close()
    open(os.path.join(folder, f"rank-{run.world.rank}"), "w").write(str(n))
"""


def script(source: str, *arguments: object, **options: Any) -> dict[str, Any]:
    return {"kind": "script", "command": [sys.executable, "-c", textwrap.dedent(source), *map(str, arguments)], **options}


def stopped_at(folder: Path, ranks: int) -> set[int]:
    return {int((folder / f"rank-{rank}").read_text()) for rank in range(ranks)}


def wait_for_ranks(run: Run, folder: Path) -> None:
    """Until all have asked whether to stop. Metrics come from the first one of each pod."""
    wait_until(lambda: len(list(folder.glob("steps-*"))) == run.spec.world.size, "all ranks ask when to stop", told=run.logs)


def wait_for_steps(run: Run) -> None:
    for pod in run.pods:
        pod.wait_for_event("ranks_started")
        pod.wait_for_a_step()


def test_the_codes_are_the_contracts() -> None:
    assert (PREEMPTED_SAVED, PREEMPTED_NOT_SAVED) == (ExitCode.PREEMPTED_SAVED, ExitCode.PREEMPTED_NOT_SAVED)


def test_all_ranks_stop_at_one_step(new_run: NewRun, tmp_path: Path) -> None:
    """Ranks of different speed, which never meet, so that only the agreement brings them to one step."""
    run = new_run(nodes=2, processes=2, work=script(STEPS + "    run.stopped()\n", tmp_path))
    run.start_all()
    wait_for_ranks(run, tmp_path)
    wait_for_steps(run)
    run.pods[1].process.send_signal(signal.SIGTERM)
    assert run.wait() == [ExitCode.PREEMPTED_SAVED] * 2, run.logs()
    assert len(stopped_at(tmp_path, 4)) == 1
    cause = run.pods[0].message().cause
    assert cause is not None
    assert "node 1" in cause.message


def test_who_saved_nothing_says_so(new_run: NewRun, tmp_path: Path) -> None:
    run = new_run(nodes=1, work=script(STEPS + "    run.stopped(saved=False)\n", tmp_path))
    run.start_all()
    run.pods[0].wait_for_event("ranks_started")
    run.pods[0].wait_for_a_step()
    run.pods[0].process.send_signal(signal.SIGTERM)
    assert run.wait() == [ExitCode.PREEMPTED_NOT_SAVED], run.logs()


def test_who_stops_without_a_word_is_not_done(new_run: NewRun, tmp_path: Path) -> None:
    """It exits with 0, and a finished index never comes back."""
    run = new_run(nodes=2, work=script(STEPS, tmp_path, state_directory=str(tmp_path / "state")))
    run.start_all()
    wait_for_steps(run)
    run.pods[0].process.send_signal(signal.SIGTERM)
    assert run.wait() == [ExitCode.PREEMPTED_NOT_SAVED] * 2, run.logs()
    assert read_complete(tmp_path / "state") is None


def test_what_is_measured_is_served(new_run: NewRun, tmp_path: Path) -> None:
    run = new_run(nodes=1, processes=2, work=script(STEPS + "    run.stopped()\n", tmp_path))
    run.start_all()
    pod = run.pods[0]
    pod.wait_for_event("ranks_started")
    wait_until(lambda: "\ntrainwright_samples_per_second " in pod.get("/metrics")[1], "a rate")
    found = dict(re.findall(r"^trainwright_(\w+) (\S+)$", pod.get("/metrics")[1], re.MULTILINE))
    assert float(found["samples"]) == 8 * float(found["step"])
    assert 0 < float(found["loss"]) < 1
    assert float(found["learning_rate"]) == 0.5
    assert float(found["step_seconds"]) > 0.002
    assert float(found["last_step_timestamp_seconds"]) > 1.7e9
    wait_for_ranks(run, tmp_path)
    pod.process.send_signal(signal.SIGTERM)
    assert run.wait() == [ExitCode.PREEMPTED_SAVED]
    assert pod.message().step == stopped_at(tmp_path, 2).pop()


def test_a_loss_on_a_device_is_served_as_it_was_when_last_looked_at(new_run: NewRun) -> None:
    """To look waits for a GPU, so that most steps do not; what they leave out must not be lost between two signs of life."""
    source = """
        import time
        from importlib import import_module
        from trainwright_trainer import run
        class Tensor:
            def __float__(self):
                return 0.25
        import_module("trainwright_trainer.run.hand").NEWS_SECONDS = 1000
        n = 0
        while not run.should_stop():
            n += 1
            run.step(n, loss=Tensor())
            time.sleep(0.01)
    """
    run = new_run(nodes=1, processes=1, work=script(source))
    run.start_all()
    pod = run.pods[0]
    pod.wait_for_event("ranks_started")
    wait_until(lambda: "\ntrainwright_loss 0.25\n" in pod.get("/metrics")[1], "the loss of the first step")
    pod.process.send_signal(signal.SIGTERM)
    assert run.wait() == [ExitCode.PREEMPTED_NOT_SAVED]


def test_a_script_that_only_counts_steps_gets_the_signal(new_run: NewRun, tmp_path: Path) -> None:
    source = """
        import signal, sys, time
        from trainwright_trainer import run
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(210))
        for n in range(1, 10**9):
            run.step(n)
            time.sleep(0.01)
    """
    run = new_run(nodes=2, work=script(source, protocol=True))
    run.start_all()
    wait_for_steps(run)
    run.pods[1].process.send_signal(signal.SIGTERM)
    assert run.wait() == [ExitCode.PREEMPTED_SAVED] * 2, run.logs()


def test_a_rank_that_has_not_begun_makes_all_get_the_signal(new_run: NewRun, tmp_path: Path) -> None:
    waits = "n = 0\n    if run.world.rank: run.phase('restoring'); open(folder + '/waits', 'w'); time.sleep(600)\n"
    source = STEPS.replace("n = 0\n", waits)
    run = new_run(nodes=2, work=script(source, tmp_path))
    run.start_all()
    run.pods[0].wait_for_event("ranks_started")
    run.pods[0].wait_for_a_step()
    wait_until(lambda: (tmp_path / "waits").exists(), "rank 1 waits")
    run.pods[1].process.send_signal(signal.SIGTERM)
    assert run.wait() == [ExitCode.PREEMPTED_NOT_SAVED] * 2, run.logs()


def test_a_step_that_hangs_ends_the_run(new_run: NewRun, tmp_path: Path) -> None:
    source = """
        import sys, time
        from trainwright_trainer import run
        def stuck_in_here():
            time.sleep(600)
        for n in range(1, 10**9):
            time.sleep(0.01)
            run.step(n)
            if n == 20 and run.world.rank == 1:
                stuck_in_here()
    """
    work = script(source, state_directory=str(tmp_path / "state"))
    run = new_run(nodes=2, work=work, watchdog={"training_seconds": 2})
    run.start_all()
    assert run.wait() == [ExitCode.HANG] * 2, run.logs()
    stacks = "".join(path.read_text() for path in (tmp_path / "state").glob("hang-*/rank-1.txt"))
    assert "stuck_in_here" in stacks


def test_a_script_that_says_nothing_is_not_watched(new_run: NewRun) -> None:
    run = new_run(nodes=1, work=script("import time; time.sleep(4)"), watchdog={"starting_seconds": 1, "training_seconds": 1})
    run.start_all()
    assert run.wait() == [ExitCode.DONE], run.logs()


def test_programs_that_a_script_starts_have_no_part(new_run: NewRun, tmp_path: Path) -> None:
    """A launcher closes the descriptors of its children, and workers of a loader are forks."""
    source = """
        import os, subprocess, sys
        from trainwright_trainer import run
        run.step(1)
        child = "from trainwright_trainer.run.hand import hand; hand().step(9, {}); print(f'child {hand().link}')"
        subprocess.run([sys.executable, "-c", child], check=True)
        if os.fork() == 0:
            run.step(901)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
        run.step(2)
    """
    run = new_run(nodes=1, work=script(source))
    run.start_all()
    assert run.wait() == [ExitCode.DONE], run.logs()
    assert "child None" in run.pods[0].log_path.read_text()
    assert run.pods[0].message().step == 2


def test_it_reads_what_the_run_states(new_run: NewRun) -> None:
    source = """
        import json
        from dataclasses import dataclass
        from trainwright_trainer import run
        @dataclass
        class Training:
            lr: float
            layers: int = 3
        print(json.dumps([run.config(Training).lr, run.config(Training).layers, run.config()]))
    """
    run = new_run(nodes=1, work=script(source, config={"lr": 1}))
    run.start_all()
    assert run.wait() == [ExitCode.DONE], run.logs()
    assert json.dumps([1.0, 3, {"lr": 1}]) in run.pods[0].log_path.read_text()


PYTHONS = sorted({sys.executable, *map(str, Path.home().glob(".pyenv/versions/3.[1-9][0-9]*/bin/python")),
                  *map(str, Path.home().glob(".pyenv/versions/3.9*/bin/python"))})  # fmt: skip
"""The tests' own, and those that this machine has besides."""


@pytest.mark.parametrize("python", PYTHONS)
def test_a_folder_with_the_hand_alone_is_enough(new_run: NewRun, tmp_path: Path, python: str) -> None:
    """As it lies in the image of somebody else: Python's own library, and not a package of ours or theirs."""
    package = Path(trainwright_trainer.__file__).parent
    (tmp_path / "alone/trainwright_trainer").mkdir(parents=True)
    subprocess.run(["cp", "-r", package / "__init__.py", package / "run", tmp_path / "alone/trainwright_trainer"], check=True)
    source = STEPS.replace("n = 0\n", "n = 0\n    print(f'from {run.__file__}', flush=True)\n") + "    run.stopped()\n"
    words = ["env", f"PYTHONPATH={tmp_path / 'alone'}", python, "-S", "-c", textwrap.dedent(source), str(tmp_path)]
    run = new_run(nodes=1, work={"kind": "script", "command": words})
    run.start_all()
    run.pods[0].wait_for_event("ranks_started")
    run.pods[0].wait_for_a_step()
    run.pods[0].process.send_signal(signal.SIGTERM)
    assert run.wait() == [ExitCode.PREEMPTED_SAVED], run.logs()
    assert f"from {tmp_path}" in run.pods[0].log_path.read_text()


SLOW_BY_ITSELF = """
    import time
    from importlib import import_module
    from trainwright_trainer import run
    hand = import_module("trainwright_trainer.run.hand")  # run.hand is the function of that name
    hand.PACE_SECONDS, hand.PACE_STEPS = 0.3, 2
    others = 0.1 if run.world.rank == 0 else 0
    for n in range(1, 10**9):
        time.sleep(0.15 - others)
        with run.waiting():
            time.sleep(others)
        run.step(n)
"""
SLOW_UNDER_DDP = """
    import time
    from importlib import import_module
    import torch
    import torch.distributed as dist
    from trainwright_trainer import run
    from trainwright_trainer.adapters.ddp import watch
    hand = import_module("trainwright_trainer.run.hand")
    hand.PACE_SECONDS, hand.PACE_STEPS = 0.3, 2
    dist.init_process_group("gloo")
    model = torch.nn.Linear(8, 1)
    watch(model)
    wrapped = torch.nn.parallel.DistributedDataParallel(model)
    for n in range(1, 10**9):
        time.sleep(0.05 + 0.1 * run.world.rank)
        wrapped(torch.ones(4, 8)).sum().backward()
        run.step(n)
"""


@pytest.mark.parametrize("source", [SLOW_BY_ITSELF, pytest.param(SLOW_UNDER_DDP, marks=OF_TORCH)], ids=["waiting", "ddp"])
def test_a_slow_rank_is_told_from_the_one_that_waits_for_it(new_run: NewRun, source: str) -> None:
    """Their steps take equally long."""
    run = new_run(nodes=2, work=script(source))
    leader, _ = run.start_all()
    wait_until(lambda: any(event.get("ranks") == [1] for event in leader.log() if event["event"] == "stragglers"), "it is named")
    assert "\ntrainwright_slow_ranks " in leader.get("/metrics")[1]
