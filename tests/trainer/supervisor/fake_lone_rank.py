"""A rank without a model whose supervisor is connected to no other: it agrees with the other ranks through their own group.

Goes on from the step in ``FAKE_COMMIT``, up to ``FAKE_STEPS``. ``FAKE_PLANS`` maps a rank's number to ``fail:CODE:N``: it reports
a code before step N, once in the whole run. What it did is appended to ``FAKE_JOURNAL``.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import NoReturn

from tests.trainer.supervisor.fake_group import FakeGroup

from trainwright_trainer.contract.exit_codes import Cause, ExitCode
from trainwright_trainer.rank.link import open_link
from trainwright_trainer.rank.messages import ATTEMPT_ENV

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
COMMIT, LAST = Path(os.environ["FAKE_COMMIT"]), int(os.environ.get("FAKE_STEPS", "1000000"))
LINK = open_link(os.environ)


def note(event: str, **facts: object) -> None:
    place = {"rank": RANK, "size": SIZE, "attempt": os.environ[ATTEMPT_ENV], "pid": os.getpid()}
    with Path(os.environ["FAKE_JOURNAL"]).open("a") as journal:
        journal.write(json.dumps({"event": event, **place, **facts}) + "\n")


def end(code: ExitCode, step: int, cause: Cause | None = None) -> NoReturn:
    note("ended", code=int(code), step=step)
    LINK.result(code, cause, step)
    os._exit(code)


def commit(step: int) -> None:
    if RANK == 0:
        COMMIT.with_suffix(".tmp").write_text(str(step))
        COMMIT.with_suffix(".tmp").rename(COMMIT)
    LINK.committed(step, 0.1)


def main() -> None:
    step = int(COMMIT.read_text()) if COMMIT.exists() else 0
    LINK.phase("restoring", step)
    group = FakeGroup()
    LINK.agree_through(group.reduce_sums)
    LINK.phase("training", step)
    note("started", step=step, environment=dict(os.environ))
    kind, *numbers = json.loads(os.environ.get("FAKE_PLANS", "{}")).get(str(RANK), "train").split(":")
    tick = 0
    while step < LAST:
        tick += 1
        action = LINK.boundary(tick)
        if action is not None:
            commit(step)
            note(action, step=step)
        if action == "stop":
            group.reduce_sums([0.0])  # nobody ends before the commit
            end(ExitCode.PREEMPTED_SAVED, step)
        if kind == "fail" and step == int(numbers[1]) and not COMMIT.with_suffix(".failed").exists():
            COMMIT.with_suffix(".failed").touch()
            end(ExitCode(int(numbers[0])), step, Cause(rank=RANK, kind="Planned", message=f"rank {RANK} fails as planned"))
        time.sleep(0.05)
        group.reduce_sums([1.0])
        step += 1
        LINK.measured({"trainwright_step": step})
    commit(step)
    LINK.phase("finished", step)
    group.reduce_sums([0.0])
    end(ExitCode.DONE, step)


if __name__ == "__main__":
    try:
        main()
    except (ConnectionError, OSError) as error:
        note("ended", code=int(ExitCode.PEER_LOST))
        LINK.result(ExitCode.PEER_LOST, Cause(rank=RANK, kind="PeerLost", message=f"rank {RANK} lost a peer: {error}"))
        os._exit(ExitCode.PEER_LOST)
