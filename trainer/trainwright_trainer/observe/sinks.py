"""Sinks: where a run's metrics go, beside ``/metrics`` and the log. Their names are those of the metric table."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from trainwright_trainer.contract.failures import InvalidRunError
from trainwright_trainer.contract.metrics import TensorBoard, WandB
from trainwright_trainer.contract.spec import RunSpec
from trainwright_trainer.contract.training import Training
from trainwright_trainer.observe.log import get_log

if TYPE_CHECKING:
    import wandb
    from torch.utils.tensorboard import SummaryWriter

FLUSH_SECONDS = 10
"""What is lost at most when a rank is killed."""
INIT_SECONDS = 30.0
CLOSE_SECONDS = 10.0
"""For the last upload: a run that ends has a grace period, and other things to do in it."""
STEP = "trainwright_step"


class Sink(Protocol):
    """Written by rank 0. May raise whatever its library raises."""

    def begin(self, step: int, config: Mapping[str, Any]) -> None:
        """An attempt goes on after ``step``. What an earlier one wrote of later steps is to be replaced.

        Args:
            step: The last step that is done.
            config: The run's work, as its specification has it.
        """

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Values by metric name."""

    def close(self) -> None:
        """Nothing follows."""


class TensorBoardSink:
    """One file an attempt, all in one directory: TensorBoard shows them as one curve.

    A file begins with the step from which what older files hold is void (``purge_step``).
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._writer: SummaryWriter | None = None

    def begin(self, step: int, config: Mapping[str, Any]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(self._directory, purge_step=step + 1, flush_secs=FLUSH_SECONDS)

    def write(self, step: int, values: Mapping[str, float]) -> None:
        if self._writer is not None:
            for name, value in values.items():
                self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


class WandBSink:
    """Attempts of an identity are one run there, under the identity's name.

    The horizontal axis is the metric ``trainwright_step``. Their own count of steps must never fall, and would drop what is
    trained again after a restart.

    Args:
        settings: The run's.
        run: Its name.
        identity: Name of its objects.
        directory: Of the state; the package makes ``wandb`` in it.
    """

    def __init__(self, settings: WandB, run: str, identity: str, directory: Path) -> None:
        self._settings, self._group, self._identity, self._directory = settings, run, identity, directory
        self._run: wandb.Run | None = None

    def begin(self, step: int, config: Mapping[str, Any]) -> None:
        import wandb

        self._directory.mkdir(parents=True, exist_ok=True)
        self._run = wandb.init(
            project=self._settings.project, entity=self._settings.entity, mode=self._settings.mode, id=self._identity,
            name=self._identity, group=self._group, resume="allow", config=dict(config), dir=str(self._directory),
            settings=wandb.Settings(init_timeout=INIT_SECONDS, console="off", silent=True),
        )
        self._run.define_metric("*", step_metric=STEP)

    def write(self, step: int, values: Mapping[str, float]) -> None:
        if self._run is not None:
            self._run.log({**values, STEP: step})

    def close(self) -> None:
        if self._run is not None:
            closing = threading.Thread(target=self._run.finish, daemon=True)
            closing.start()
            closing.join(CLOSE_SECONDS)


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
    for settings in training.metrics:
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
