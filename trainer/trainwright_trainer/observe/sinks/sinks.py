"""The sinks of a run, as one."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from trainwright_trainer.contract.failures import InvalidRunError
from trainwright_trainer.contract.metrics import TensorBoard
from trainwright_trainer.contract.spec import RunSpec
from trainwright_trainer.contract.training import Training
from trainwright_trainer.observe.log import get_log
from trainwright_trainer.observe.sinks.sink import Sink
from trainwright_trainer.observe.sinks.tensorboard import TensorBoardSink
from trainwright_trainer.observe.sinks.wandb import WandBSink


class Sinks:
    """Training goes on without a sink that fails: it is dropped, with one warning."""

    def __init__(self, sinks: Mapping[str, Sink], config: Mapping[str, Any]) -> None:
        self._sinks, self._config = dict(sinks), config

    def begin(self, step: int) -> None:
        """Training goes on after this step."""
        self._each(lambda sink: sink.begin(step, self._config))

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Values by metric name."""
        self._each(lambda sink: sink.write(step, values))

    def close(self) -> None:
        """The last word, in order."""
        self._each(lambda sink: sink.close())
        self._sinks.clear()

    def _each(self, act: Callable[[Sink], None]) -> None:
        for name, sink in list(self._sinks.items()):
            try:
                act(sink)
            except Exception as error:
                del self._sinks[name]
                reason = (str(error).strip().splitlines() or ["no message"])[0]
                get_log().warning("sink_dropped", to=name, reason=f"{type(error).__name__}: {reason}")


def open_sinks(spec: RunSpec, *, leads: bool) -> Sinks:
    """What ``work.metrics`` asks for, on rank 0; nothing on the others.

    Raises :class:`InvalidRunError` where its package is not in the image.
    """
    training = spec.work
    if not isinstance(training, Training) or not leads:
        return Sinks({}, {})
    directory = training.checkpoints.directory
    sinks: dict[str, Sink] = {}
    for settings in training.metrics or ():
        _refuse_absent(settings.to)
        if isinstance(settings, TensorBoard):
            sinks[settings.to] = TensorBoardSink(f"{directory}/tensorboard/{spec.identity}")
        else:
            sinks[settings.to] = WandBSink(settings, spec.run, spec.identity, _on_this_machine(directory))
    return Sinks(sinks, training.model_dump(mode="json", exclude_none=True))


def _on_this_machine(directory: str) -> Path:
    """The state directory, or on an object store this machine's scratch: the package buffers there what it sends."""
    return Path(tempfile.gettempdir()) if "://" in directory else Path(directory)


def _refuse_absent(package: str) -> None:
    if find_spec(package) is None:
        raise InvalidRunError(
            f"metrics go to {package}, and its package is not in this image; install trainwright-trainer[{package}], or remove "
            f"{package} from work.metrics"
        )
