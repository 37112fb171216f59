"""A rank without a model: speaks the real messages through the real link, and behaves as the test asks.

``FAKE_PLANS`` maps a rank's number (or ``*``) to its behaviour: ``finish:N`` does N ticks and is done (the default is 30),
``fail:CODE:N`` reports a code before tick N, ``exit:CODE:N`` exits without a word, ``abort:N`` aborts, ``starting`` never
begins, ``mute`` starts and never answers, ``hang:N`` stays in tick N for ever, ``slow:N`` says that its own part of a step
takes N milliseconds (others: 10), ``commit`` commits once the file in ``FAKE_GO`` is there and goes on for ever, ``stuck`` does
not stop when told, ``leak:N`` leaves two orphans, one of them in a session of its own, and does N ticks, ``segment:N`` leaves a
segment of shared memory and fails in tick N. Behaviours of attempts are separated by ``;``, and the last one goes on. What it did
is appended to ``FAKE_JOURNAL``. A rank whose end is that of the attempt begins once all have started: those that are killed
before behave in the next attempt as if there had been none.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

from trainwright_trainer.contract.exit_codes import Cause, ExitCode
from trainwright_trainer.contract.layout import RANK_ENVIRONMENT
from trainwright_trainer.contract.metrics import StepSplit
from trainwright_trainer.rank.link import Link, open_link
from trainwright_trainer.rank.messages import ATTEMPT_ENV, RESUME_BEFORE_ENV
from trainwright_trainer.run.link import LINK_FD_ENV, STACKS_FD_ENV

RANK = int(os.environ["RANK"])
TICK_SECONDS = float(os.environ.get("FAKE_TICK_SECONDS", "0.02"))


def note(event: str, **facts: object) -> None:
    line = json.dumps({"event": event, "rank": RANK, "time": time.time(), **facts})
    with Path(os.environ["FAKE_JOURNAL"]).open("a") as journal:
        journal.write(line + "\n")


def journal() -> list[dict[str, Any]]:
    path = Path(os.environ["FAKE_JOURNAL"])
    *whole, _ = path.read_text().split("\n") if path.exists() else [""]  # others may be in the middle of a line
    return [json.loads(line) for line in whole]


def ghosts() -> list[int]:
    """Ranks of other attempts that still exist, also as zombies."""
    started = [line for line in journal() if line["event"] == "started" and line["attempt"] != os.environ[ATTEMPT_ENV]]
    return [line["pid"] for line in started if Path(f"/proc/{line['pid']}").exists()]


def segments() -> list[str]:
    """Of ranks, of this and of other attempts."""
    wanted = os.environ.get("FAKE_SEGMENT")
    return [] if wanted is None else sorted(map(str, Path(wanted).parent.glob(f"{Path(wanted).name}-*")))


def plan() -> tuple[str, list[int]]:
    plans = json.loads(os.environ.get("FAKE_PLANS", "{}"))
    behaviours = str(plans.get(str(RANK), plans.get("*", "finish:30"))).split(";")
    earlier = sum(line["event"] == "started" and line["rank"] == RANK for line in journal())
    kind, *numbers = behaviours[min(earlier, len(behaviours) - 1)].split(":")
    return kind, [int(number) for number in numbers]


def wait_for_all() -> None:
    """Until every rank of this attempt has started."""
    attempt, size = os.environ[ATTEMPT_ENV], int(os.environ["WORLD_SIZE"])
    while sum(line["event"] == "started" and line["attempt"] == attempt for line in journal()) < size:
        time.sleep(0.02)


def end(code: int) -> NoReturn:
    os._exit(code)


def leave_orphans() -> None:
    """A child that ends at once, and its own child that outlives it: in our group, and in a session of its own."""
    sleeper = "import time; time.sleep(600)"
    script = (
        "import subprocess, sys\n"
        "nowhere = subprocess.DEVNULL\n"
        "for session in (False, True):\n"
        f"    command = [sys.executable, '-c', {sleeper!r}]\n"
        "    child = subprocess.Popen(command, start_new_session=session, stdout=nowhere, stderr=nowhere)\n"
        "    print(child.pid, flush=True)\n"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    note("orphans", pids=[int(pid) for pid in found.stdout.split()])


def train(link: Link, kind: str, numbers: list[int]) -> None:
    last = numbers[-1] if numbers and kind != "slow" else 10**9
    committed: int | None = None
    link.phase("training", 0)
    for tick in range(1, 10**9):
        action = link.boundary(tick)
        if tick == 2:
            note("training")
        if action == "save" or (kind == "commit" and committed is None and os.path.exists(os.environ["FAKE_GO"])):
            note("save", tick=tick)
            committed = tick - 1
            link.phase("saving", committed)
            link.committed(committed, 0.5)
            link.phase("training", committed)
        if action == "stop" and kind != "stuck":
            note("stop", tick=tick)
            link.committed(tick - 1, 0.5)
            link.result(ExitCode.PREEMPTED_SAVED, step=tick - 1)
            end(ExitCode.PREEMPTED_SAVED)
        if tick > last:
            break
        if tick == last and kind == "fail":
            link.result(ExitCode(numbers[0]), Cause(rank=RANK, kind="Planned", message=f"rank {RANK} fails as planned"), tick - 1)
            end(numbers[0])
        if tick == last and kind == "exit":
            end(numbers[0])
        if tick == last and kind == "abort":
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            os.abort()
        if tick == last and kind == "hang":
            time.sleep(600)
        time.sleep(TICK_SECONDS)
        own = numbers[0] / 1000 if kind == "slow" else 0.01
        link.pace(tick, StepSplit(step_seconds=own, waited_seconds=0))
        link.measured({"trainwright_step": tick, "trainwright_loss": 1 / tick})
    link.phase("finished", last)
    link.committed(last, 0.5)
    link.result(ExitCode.DONE, step=last)
    end(0)


def main() -> None:
    kind, numbers = plan()
    descriptors = [number for number in map(int, os.listdir("/proc/self/fd")) if Path(f"/proc/self/fd/{number}").exists()]
    note(
        "started", pid=os.getpid(), environment={name: os.environ[name] for name in RANK_ENVIRONMENT},
        descriptors=sorted(descriptors), link=int(os.environ[LINK_FD_ENV]),
        stacks=int(os.environ[STACKS_FD_ENV]), session=os.getsid(0), resume_before=os.environ.get(RESUME_BEFORE_ENV),
        attempt=os.environ[ATTEMPT_ENV], ghosts=ghosts(), segments=segments(),
    )
    if kind in ("fail", "exit", "abort", "hang"):
        wait_for_all()
    if kind == "mute":
        print("mute", flush=True)
        time.sleep(600)
    link = open_link(os.environ)
    link.phase("restoring")
    if kind == "starting":
        time.sleep(600)
    if kind == "leak":
        leave_orphans()
        kind = "finish"
    if kind == "segment":
        with Path(f"{os.environ['FAKE_SEGMENT']}-{RANK}").open("xb") as segment:
            segment.truncate(4096)
        note("segment")
        kind, numbers = "fail", [int(ExitCode.INTERNAL), *numbers]
    train(link, kind, numbers)


if __name__ == "__main__":
    main()
