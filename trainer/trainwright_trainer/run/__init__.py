"""A script's hand: a few lines for what only the script knows.

    from trainwright_trainer import run

    newest = run.checkpoints.newest()
    start = load(newest.path) if newest else 0
    for n in range(start + 1, steps + 1):
        run.step(n, loss=train_one_step(), samples=n * batch)
        stop = run.should_stop()
        if stop or n % 1000 == 0:
            save(run.checkpoints.draft() / f"rank-{run.world.rank}.pt")
            run.checkpoints.commit(n)
        if stop:
            run.stopped()

Under our supervisor the steps are watched, measured and served, and all ranks stop at one step. Without it, everything works for
one process: the same script runs on a laptop. It needs the standard library alone, of Python 3.9 or newer; a copy of this folder,
with ``trainwright_trainer/__init__.py`` above it, is enough on ``PYTHONPATH``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar, overload

from trainwright_trainer.run.hand import Waiting, hand
from trainwright_trainer.run.launched import World
from trainwright_trainer.run.launched import world as _world
from trainwright_trainer.run.saving import Checkpoint, CheckpointError, Checkpoints
from trainwright_trainer.run.stated import ConfigError, as_kind, stated

if TYPE_CHECKING:
    from typing import Literal, NoReturn, SupportsFloat

    Activity = Literal["restoring", "warming_up", "training", "evaluating", "saving"]

__all__ = [
    "Checkpoint", "CheckpointError", "Checkpoints", "ConfigError", "World", "checkpoints", "config", "phase", "should_stop",
    "step", "stopped", "waiting", "world",
]

T = TypeVar("T")
checkpoints = Checkpoints()
"""Of this run: ``draft()``, ``commit()`` and ``newest()``."""
world: World
"""This process's rank and the number of all, from whatever launched it. Read anew at each access."""


def step(
    number: int, *, loss: SupportsFloat | None = None, samples: int | None = None,
    learning_rate: float | None = None, gradient_norm: SupportsFloat | None = None, evaluation_loss: SupportsFloat | None = None,
) -> None:
    """Say that an optimizer step is done: progress, by which hangs are found, the rate, metrics and alerts follow from it.

    It costs a few microseconds. A tensor is looked at once a second, so that a GPU is not waited for at each step.

    Args:
        number: How many are done since the first attempt began, this one included.
        loss: Of this step.
        samples: That the whole run has consumed until now, on all ranks.
        learning_rate: Of this step.
        gradient_norm: Before clipping.
        evaluation_loss: On held-out data, where this step was followed by an evaluation.
    """
    values = {}
    if loss is not None:
        values["loss"] = loss
    if samples is not None:
        values["samples"] = samples
    if learning_rate is not None:
        values["learning_rate"] = learning_rate
    if gradient_norm is not None:
        values["gradient_norm"] = gradient_norm
    if evaluation_loss is not None:
        values["evaluation_loss"] = evaluation_loss
    hand().step(number, values)


def should_stop() -> bool:
    """Whether to save and end now. Call it once a step, on every rank: all get True at the same call, without a collective.

    Once it was called, SIGTERM to any pod of the run is answered by it, and reaches no script. From then on it stays True.
    """
    return hand().should_stop()


def stopped(*, saved: bool = True) -> NoReturn:
    """End this process, after :func:`should_stop`: with 210, or 211 where nothing was saved. The run goes on from there."""
    hand().stopped(saved)


def phase(activity: Activity) -> None:
    """Say what this rank does until its next :func:`step`. Each has its own limit before it counts as a hang."""
    hand().phase(activity)


def waiting() -> Waiting:
    """``with run.waiting():`` around what lets this rank wait for others, such as a collective that returns when it is done.

    All ranks leave a collective together, so their steps take equally long, however slow one is. By what each waits, the slow
    ones are found. On a GPU a collective returns before it is done: :mod:`trainwright_trainer.adapters.ddp` has its clock.
    """
    return Waiting()


@overload
def config() -> dict[str, Any]: ...
@overload
def config(kind: type[T]) -> T: ...
def config(kind: type[T] | None = None) -> T | dict[str, Any]:
    """What the run file states under ``config`` of its workload.

    Args:
        kind: A dataclass or a pydantic model of the script's own. Default: a dict.

    Outside a run it is what the JSON file holds that ``TRAINWRIGHT_CONFIG`` names, else empty: defaults then count. Raises
    :class:`ConfigError` for a key that is not there, a value of another type, and a missing one without a default.
    """
    found = stated(os.environ)
    return found if kind is None else as_kind(kind, found)


def __getattr__(name: str) -> Any:
    if name == "world":
        return _world(os.environ)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
