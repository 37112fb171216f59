"""One side of a comparison: starts its processes, waits for their end, and reads what rank 0 said.

Ours is a supervised pod, as in production. A peer is one process for each rank. All of them log the same lines in the same form,
so that a step's moment means the same for every side.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from train_spec import NODE_INDEX_ENV

from trainwright_trainer.contract import RunSpec
from trainwright_trainer.contract.layout import BIND_ENV, TERMINATION_PATH_ENV
from trainwright_trainer.supervisor.pod.launcher import numbers, static_rendezvous

HERE = Path(__file__).resolve().parent
OURS = "trainwright"
POLL_SECONDS = 0.2
TAIL_CHARACTERS = 3000


@dataclass(frozen=True, slots=True)
class Trace:
    """What one run of a side said."""

    started: float
    """Unix time at which its processes were started."""
    events: tuple[Mapping[str, Any], ...]
    """Its log lines, oldest first."""

    def moment(self, event: str, **fields: object) -> float:
        """Unix time of the first such line."""
        return _moment(self._first(event, fields))

    def steps(self) -> dict[int, float]:
        """Step -> unix time at which its line was written, after its update. Steps that were logged only."""
        return {int(line["step"]): _moment(line) for line in self.events if line["event"] == "step"}

    @property
    def held_out_loss(self) -> float:
        """Mean over the held-out batches after the last step: it depends on every step before."""
        return float(self._first("evaluated", {})["loss"])

    def tokens_per_second(self, after_step: int, step_tokens: int) -> float:
        """Over all steps after this one. Includes whatever a side does between its steps."""
        moments = self.steps()
        last = max(moments)
        return (last - after_step) * step_tokens / (moments[last] - moments[after_step])

    def intervals(self, after_step: int, step_tokens: int) -> list[float]:
        """Tokens a second from each logged step to the next, after this one."""
        moments = sorted(item for item in self.steps().items() if item[0] >= after_step)
        return [(to - since) * step_tokens / (later - earlier) for (since, earlier), (to, later) in pairwise(moments)]

    def _first(self, event: str, fields: Mapping[str, object]) -> Mapping[str, Any]:
        for line in self.events:
            if line["event"] == event and all(line.get(key) == value for key, value in fields.items()):
                return line
        sys.exit(f"no line {event} {dict(fields)} in the log of a side")


def run_side(side: str, spec: RunSpec, folder: Path, threads: int) -> Trace:
    """Run one side from start to end. Ends this program with the side's last words where it fails.

    Args:
        side: ``trainwright``, or the name of a module in ``peers``.
        folder: Empty; specification, logs and checkpoints go there.
        threads: Of each rank.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path, log = folder / "run.json", folder / "side.log"
    path.write_text(spec.model_dump_json(exclude_none=True), encoding="utf-8")
    with log.open("wb") as output, log.with_suffix(".errors").open("wb") as errors:
        started = time.time()
        processes = [
            subprocess.Popen(command, cwd=HERE, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=errors)
            for command, environment in _processes(side, spec, path, threads)
        ]
        code = _wait(processes)
    if code:
        words = log.with_suffix(".errors").read_text(errors="replace") + log.read_text(errors="replace")
        sys.exit(f"{side} ended with {code}:\n{words[-TAIL_CHARACTERS:]}")
    return Trace(started, tuple(_events(log)))


def _processes(side: str, spec: RunSpec, path: Path, threads: int) -> list[tuple[list[str], dict[str, str]]]:
    """Commands with their environments."""
    base = {
        **{key: value for key, value in os.environ.items() if key not in ("RANK", "LOCAL_RANK", "WORLD_SIZE")},
        "OMP_NUM_THREADS": str(threads), "GLOO_SOCKET_IFNAME": "lo", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error",
        "PYTHONUNBUFFERED": "1",
    }
    if side == OURS:
        pod = {NODE_INDEX_ENV: "0", BIND_ENV: "127.0.0.1", TERMINATION_PATH_ENV: str(path.with_name("termination.json"))}
        return [([sys.executable, "-m", "trainwright_trainer", "supervise", "--spec", str(path)], {**base, **pod})]
    command = [sys.executable, str(HERE / "train_peer.py"), side, str(path)]
    size = spec.world.size
    if size == 1:  # on one device people start their program by itself, and it wraps nothing
        return [(command, base)]
    return [(command, {**base, **numbers(size, 1, 0, rank), **static_rendezvous(spec.world)}) for rank in range(size)]


def _wait(processes: list[subprocess.Popen[bytes]]) -> int:
    """The first exit code that is not 0, if there is one. What still runs then would wait for the failed one: it is killed."""
    try:
        while True:
            codes = [process.poll() for process in processes]
            failed = [code for code in codes if code]
            if failed or None not in codes:
                return failed[0] if failed else 0
            time.sleep(POLL_SECONDS)
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _events(log: Path) -> list[dict[str, Any]]:
    """Lines of the form that all sides share; libraries may print others."""
    events = []
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        with suppress(ValueError):
            events.append(json.loads(line))
    return [event for event in events if isinstance(event, dict) and "event" in event]


def _moment(line: Mapping[str, Any]) -> float:
    return datetime.fromisoformat(line["ts"]).timestamp()
