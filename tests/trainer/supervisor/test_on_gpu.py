"""Runs on a real GPU: one rank, since NCCL lets no two share one. Those with two ranks talk through gloo."""

from __future__ import annotations

import os
import signal
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from tests.gpu import NEEDS_GPU, users
from tests.processes import wait_until
from tests.trainer.supervisor.conftest import NewRun
from tests.trainer.supervisor.pods import PodProcess, Run

from trainwright_trainer.contract import ExitCode

pytestmark = [NEEDS_GPU, pytest.mark.slow]
ENGINES = ("ddp", "fsdp2")


def on_gpu(new_run: NewRun, processes: int = 1, **other: Any) -> Run:
    run = new_run(1, processes, **other)
    run.spec = run.spec.model_copy(update={"world": run.spec.world.model_copy(update={"device": "cuda"})})
    run.rank = None
    return run


def training(directory: Path, engine: str) -> dict[str, Any]:
    """Without an end."""
    return {
        "kind": "trainer", "engine": engine, "task": "causal-lm", "precision": "bf16", "log_every_steps": 1,
        "model": {
            "architecture": "llama", "vocab_size": 256, "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2,
            "num_attention_heads": 2, "max_position_embeddings": 64,
        },
        "data": {"source": "python-stdlib", "sequence_length": 64, "files": 10}, "batch": {"micro": 8},
        "optimizer": {"kind": "adamw"}, "learning_rate": {"peak": 0.001, "schedule": "constant"},
        "duration": {"steps": 1_000_000}, "checkpoints": {"directory": str(directory), "every_steps": 20},
    }


def script(source: str, **options: Any) -> dict[str, Any]:
    return {"kind": "script", "command": [sys.executable, "-c", textwrap.dedent(source)], **options}


def heard(pod: PodProcess, name: str) -> list[dict[str, Any]]:
    return [event for event in pod.log() if event["event"] == name]


def on_the_gpu(pod: PodProcess) -> set[int]:
    """Those of its children that have a context."""
    pid = pod.process.pid
    return users() & {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_killed_rank_is_followed_in_its_pod(new_run: NewRun, tmp_path: Path, engine: str) -> None:
    """By a rank that had no context of the GPU while it waited."""
    run = on_gpu(new_run, work=training(tmp_path / "state", engine), recovery={"restarts": 3, "wait_seconds": 900})
    [pod] = run.start_all()
    pod.wait_for_event("template_ready")
    assert not heard(pod, "gpu_health_unknown")
    assert pod.wait_for_event("preflight")["tflops"] > 0
    [first] = pod.wait_for_event("ranks_started")["pids"]
    pod.wait_for_event("checkpoint_committed")
    assert on_the_gpu(pod) == {first}
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: len(heard(pod, "run_started")) == 2, "the next attempt", told=run.logs)
    [second] = heard(pod, "ranks_started")[1]["pids"]
    assert b"trainwright_trainer.rank.template" in Path(f"/proc/{second}/cmdline").read_bytes()
    assert on_the_gpu(pod) == {second}
    assert heard(pod, "restored"), run.logs()
    pod.process.send_signal(signal.SIGTERM)
    assert pod.wait() == ExitCode.PREEMPTED_SAVED, run.logs()
    assert second not in users()
    saved = pod.message().committed_step
    again = run.start(0, reuse=True)
    assert again.wait_for_event("restored")["step"] == saved
    again.process.send_signal(signal.SIGTERM)
    again.wait()


def test_nccl_answers_in_a_hang(new_run: NewRun, tmp_path: Path) -> None:
    """Its flight recorder, while the main thread is elsewhere."""
    source = """
        import time, torch, torch.distributed as dist
        from trainwright_trainer import run
        dist.init_process_group("nccl", device_id=torch.device("cuda", 0))
        for n in range(1, 20):
            dist.all_reduce(torch.ones(8, device="cuda"))
            run.step(n)
        time.sleep(600)
    """
    work = script(source, state_directory=str(tmp_path / "state"))
    run = on_gpu(new_run, work=work, watchdog={"training_seconds": 2})
    run.start_all()
    assert run.wait() == [ExitCode.HANG], run.logs()
    assert list((tmp_path / "state").glob("hang-*/rank-0.nccl")), run.logs()


SLOW = """
    from importlib import import_module
    import torch, torch.distributed as dist
    from trainwright_trainer import run
    from trainwright_trainer.adapters.ddp import watch
    hand = import_module("trainwright_trainer.run.hand")
    hand.PACE_SECONDS, hand.PACE_STEPS = 0.3, 2
    dist.init_process_group("gloo")
    model = torch.nn.Linear(8, 1).cuda()
    watch(model)
    wrapped = torch.nn.parallel.DistributedDataParallel(model)
    for n in range(1, 10**9):
        torch.cuda._sleep(50_000_000 + 200_000_000 * run.world.rank)  # clock cycles, for which the host does not wait
        wrapped(torch.ones(4, 8, device="cuda")).sum().backward()
        run.step(n)
"""


def test_a_slow_gpu_is_told_from_the_one_that_waits_for_it(new_run: NewRun) -> None:
    run = on_gpu(new_run, 2, work=script(SLOW))
    [pod] = run.start_all()
    wait_until(lambda: any(event["ranks"] == [1] for event in heard(pod, "stragglers")), "it is named", told=run.logs)


def test_one_rank_of_nccl_waits_for_nobody(new_run: NewRun) -> None:
    source = SLOW.replace('"gloo"', '"nccl"').replace("10**9", "20") + "    assert hand.hand().clocks == []\n"
    run = on_gpu(new_run, work=script(source))
    run.start_all()
    assert run.wait() == [ExitCode.DONE], run.logs()
