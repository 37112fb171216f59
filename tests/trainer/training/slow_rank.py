"""A real rank that is slow at one place: ``SLOW`` is ``PLACE:RANK:SECONDS``, with ``*`` for every rank.

It stays there so long once, and notes it in the file ``SLOW_NOTE``: at its sixth batch or step, or the first time elsewhere.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trainwright_trainer.checkpoint import Draft
from trainwright_trainer.engine.ddp import DDPEngine
from trainwright_trainer.engine.fsdp2 import FSDP2Engine
from trainwright_trainer.rank import __main__
from trainwright_trainer.task.classification import ImageClassification
from trainwright_trainer.training import assembly, loop

ENGINES = (DDPEngine, FSDP2Engine)
PREFLIGHT = importlib.import_module("trainwright_trainer.rank.preflight.checks")  # its package has a function of this name
PLACES: dict[str, tuple[tuple[Any, ...], str, int]] = {
    "start": ((assembly,), "assemble", 1),
    "preflight": ((PREFLIGHT,), "check_collective", 1),
    "restore": (ENGINES, "load", 1),
    "warm_up": (ENGINES, "warm_up", 1),
    "data": ((ImageClassification,), "collate", 6),
    "step": (ENGINES, "forward_backward", 6),
    "save": ((Draft,), "write", 1),
    "evaluate": (ENGINES, "evaluate", 1),
    "complete": ((loop,), "write_complete", 1),
}


def slowed(function: Callable[..., Any], seconds: float, turn: int) -> Callable[..., Any]:
    turns = 0

    def wrapper(*arguments: Any, **options: Any) -> Any:
        nonlocal turns
        turns += 1
        if turns == turn:
            Path(os.environ["SLOW_NOTE"]).touch()
            time.sleep(seconds)
        return function(*arguments, **options)

    return wrapper


def main() -> None:
    place, who, seconds = os.environ["SLOW"].split(":")
    if who in ("*", os.environ["RANK"]):
        owners, name, turn = PLACES[place]
        for owner in owners:
            setattr(owner, name, slowed(getattr(owner, name), float(seconds), turn))
    __main__.main()


if __name__ == "__main__":
    main()
