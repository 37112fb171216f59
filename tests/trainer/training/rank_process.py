"""The child's side of the rank harness: importable by name, so that multiprocessing can start it."""

from __future__ import annotations

import hashlib
import os
import socket
import sys
import time
from collections.abc import Mapping
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from trainwright_trainer.observe.log import get_log
from trainwright_trainer.rank import __main__
from trainwright_trainer.run.link import LINK_FD_ENV
from trainwright_trainer.task.base import Measurement
from trainwright_trainer.task.classification import ImageClassification
from trainwright_trainer.training.learner import Position
from trainwright_trainer.training.loop import Loop, Outcome
from trainwright_trainer.training.reporting import Reporter
from trainwright_trainer.training.torch_learner import TorchLearner

SLOW_ENV = "SLOW_IN_FORWARD"
"""``RANK:SECONDS``: how much longer this rank computes each micro batch, with ``*`` for every rank."""
PAUSE_ENV = "PAUSE_SECONDS"
"""How long this rank rests before each step; not at all where it is not set."""


def run_rank(environment: dict[str, str], output: str, link: socket.socket | None) -> NoReturn:
    """Become a rank: its own environment, its output in a file, its end of the link as an inherited descriptor."""
    os.environ.update(environment)
    if link is not None:
        os.environ[LINK_FD_ENV] = str(link.detach())
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    torch.set_num_threads(1)
    tell_what_it_holds()
    tell_paces()
    compute_longer_where_told(os.environ)
    rest(float(environment.get(PAUSE_ENV, 0)))
    __main__.main()


def rest(seconds: float) -> None:
    """Have this rank take so long for each step at the least, and compute what it would have computed."""
    step = TorchLearner.step

    def resting(learner: TorchLearner) -> None:
        time.sleep(seconds)
        step(learner)

    TorchLearner.step = resting  # type: ignore[assignment,method-assign]


def compute_longer_where_told(environment: Mapping[str, str]) -> None:
    """Have the rank that is named, or every rank, take so much longer for each forward pass."""
    slow, seconds = environment.get(SLOW_ENV, "none:0").split(":")
    if slow not in ("*", environment["RANK"]):
        return
    measure = ImageClassification.measure

    def longer(*arguments: Any) -> Measurement:
        time.sleep(float(seconds))
        return measure(*arguments)

    ImageClassification.measure = longer  # type: ignore[assignment,method-assign]


def tell_paces() -> None:
    """Have this rank log what it tells its supervisor of its steps."""
    report = Reporter.step

    def telling(reporter: Reporter, at: Position, *numbers: Any) -> None:
        report(reporter, at, *numbers)
        get_log().info("paced", step=at.step, split=numbers[-1].split.model_dump())

    Reporter.step = telling  # type: ignore[assignment,method-assign]


def tell_what_it_holds() -> None:
    """Have this rank log a digest of the weights that it holds whole after the last step.

    And how many graphs ``torch.compile`` has made: dynamo falls back without a word. And every data file of a checkpoint that
    Python has opened to read; a library that loads tensors opens files by itself.
    """
    finish, opened = Loop._finish, list[str]()

    def hear(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and "/step-" in str(arguments[0]) and not os.O_CREAT & int(str(arguments[2])):
            opened.append(str(arguments[0]))

    def telling(loop: Loop) -> Outcome:
        get_log().info("weights_held", digest=_digest(loop._learner), graphs=_graphs(), opened=opened)
        return finish(loop)

    sys.addaudithook(hear)
    Loop._finish = telling  # type: ignore[assignment,method-assign]


def _digest(learner: Any) -> str:
    digest = hashlib.sha256()
    for name, parameter in learner._engine._module.named_parameters():
        digest.update(name.encode())
        if not _is_spread(parameter):
            # A copy, for storage that NumPy has seen cannot be resized any more, which FSDP2 does with what it has gathered.
            whole = parameter.detach().clone(memory_format=torch.contiguous_format)
            digest.update(whole.view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _graphs() -> int:
    if "torch._dynamo" not in sys.modules:
        return 0
    from torch._dynamo.utils import counters

    return int(counters["stats"]["unique_graphs"])


def _is_spread(parameter: Tensor) -> bool:
    """Whether no rank has all of it. Put together it would have the same bits everywhere, whatever the ranks hold."""
    return isinstance(parameter, DTensor) or hasattr(parameter, "ds_id")
