"""A model that learns by MultiWorkerMirroredStrategy, an optimizer step at a time."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from trainwright_trainer.checkpoint import Piece, Snapshot, array_file
from trainwright_trainer.checkpoint.array_file import Array
from trainwright_trainer.checkpoint.record import TRAINED, Trained
from trainwright_trainer.contract.failures import DivergedError, InvalidRunError
from trainwright_trainer.contract.spec import World
from trainwright_trainer.contract.training import Training
from trainwright_trainer.data.batch import share_step
from trainwright_trainer.data.dataset import Dataset, HeldOut, Prefetch
from trainwright_trainer.data.order import DataOrder
from trainwright_trainer.optim.schedule import learning_rate
from trainwright_trainer.rank.link import Link
from trainwright_trainer.rank.place import Place
from trainwright_trainer.tensorflow.batches import Batch, Batches
from trainwright_trainer.tensorflow.functions import Functions
from trainwright_trainer.tensorflow.model import build_model
from trainwright_trainer.tensorflow.optimizer import build_optimizer
from trainwright_trainer.tensorflow.strategy import Strategy, StrategyGroup, lost_workers
from trainwright_trainer.training.learner import Metadata, Position, Restored, StateSnapshot
from trainwright_trainer.training.reporting import Meter, Reporter

MODEL_FILE, OPTIMIZER_FILE = "model.safetensors", "optimizer.safetensors"
_PREFIX = "trainwright noise v1"


class TensorFlowLearner:
    """Model and optimizer, whole on every replica.

    Args:
        training: What to learn.
        world: The run's processes and their replicas.
        strategy: All workers.
    """

    saves_in_background = False
    evaluates_before_saving = False

    def __init__(
        self, training: Training, world: World, place: Place, link: Link, report: Reporter, group: StrategyGroup,
        strategy: Strategy, dataset: Dataset,
    ) -> None:
        self._training, self._link, self._group, self._dataset = training, link, group, dataset
        self._held_out = HeldOut(dataset.held_out)
        self._order = DataOrder(training.seed, len(dataset.train), dataset.fingerprint)
        self._shares = share_step(training.batch, world.replicas)
        self._target = training.duration.target_samples(len(dataset.train), self._shares.samples)
        self._batches = Batches(place, world.replicas_per_process or 1, training.batch.micro)
        self._report, self._meter = report, Meter()
        with strategy.scope():
            model = build_model(training.model, training.precision, training.seed)
            trained = {variable.path: variable.value for variable in model.trainable_variables}
            self._optimizer = build_optimizer(training.optimizer, trained)
            self._functions = Functions(
                strategy, model, self._optimizer, training.clip_norm, accumulates=training.batch.accumulation > 1
            )
        self._weights = {variable.path: variable.value for variable in model.variables}
        self._at = Position()
        self._unread: tuple[Any, Any, Any] | None = None
        self._waited = 0.0
        """Seconds in the sums of gradients that were read and not reported."""
        self._steps: Prefetch[list[list[Batch]]] | None = None

    @property
    def position(self) -> Position:
        return self._at

    @property
    def target_samples(self) -> int:
        return self._target

    @property
    def step_samples(self) -> int:
        return self._shares.samples

    @property
    def done(self) -> bool:
        return self._at.samples >= self._target

    def metadata(self) -> Metadata:
        return {"library": f"tensorflow {tf.__version__}", TRAINED: Trained.of(self._training).model_dump(mode="json")}

    def snapshots(self) -> Sequence[Snapshot]:
        return [StateSnapshot(self._files)]

    def initialise(self) -> None:
        """Keras has done so."""

    def load(self, checkpoint: Restored) -> None:
        _restore(self._weights, array_file.decode(checkpoint.read(MODEL_FILE)), "model")
        _restore(self._optimizer.slots, array_file.decode(checkpoint.read(OPTIMIZER_FILE)), "optimizer")
        self._at = checkpoint.position

    def warm_up(self) -> None:
        self._functions.trace(self._batches.step(self._dataset.train, self._order, 0, self._shares)[0])
        self._steps = Prefetch(self._ahead(self._at.samples))

    def step(self) -> None:
        with self._meter.step(self._shares.samples):
            micro_batches = next(self._prefetched)
            self._link.mark()  # who waits for data has said it less often than those who wait for him
            self.check()
            at = Position(self._at.step + 1, self._at.samples + self._shares.samples)
            rate = learning_rate(self._training.learning_rate, at.samples, self._target)
            noise = [_noise(self._training.seed, at.step, number) for number in range(len(micro_batches))]
            for replicas, seed in zip(micro_batches[:-1], noise[:-1], strict=True):
                self._functions.accumulate(replicas, seed, self._shares.samples)
            numbers = self._optimizer.numbers(at.step, rate)
            self._unread = self._functions.update(micro_batches[-1], noise[-1], self._shares.samples, numbers)
            self._at = at
        if at.step == 1 or at.step % self._training.log_every_steps == 0 or self.done:
            self._report_step(rate)

    def stalled(self, seconds: float) -> None:
        """It stands still for all of a save, which has a metric of its own."""

    def check(self) -> None:
        """Read the last step's loss and norm. One step late, so that a GPU has work while the host waits."""
        if self._unread is None:
            return
        loss, norm, waited = self._read(self._unread)
        self._unread = None
        self._waited += waited
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise DivergedError(f"step {self._at.step} is not finite: loss {loss:g}, gradient norm {norm:g}")

    def evaluate(self, before_batch: Callable[[], None]) -> None:
        self._functions.broadcast_statistics()
        sums, known = np.zeros(3), len(self._held_out.left_out)
        for replicas in self._batches.evaluation(self._held_out, self._training.evaluation.max_batches):
            before_batch()
            sums += self._functions.score(replicas)
        loss, correct, items = self._group.reduce_sums(sums.tolist())
        self._report.left_out(self._at, dict(list(self._held_out.left_out.items())[known:]))
        self._report.scored(self._at, loss, correct, int(items))

    def publish(self) -> None:
        """The last checkpoint's ``model.safetensors`` is all there is."""

    def close(self) -> None:
        self._group.close()

    @property
    def _prefetched(self) -> Iterator[list[list[Batch]]]:
        if self._steps is None:
            raise RuntimeError("warm_up comes before the first step")
        return self._steps

    def _ahead(self, start: int) -> Iterator[list[list[Batch]]]:
        """The batches of each step from here to the target."""
        for samples in range(start, self._target, self._shares.samples):
            yield self._batches.step(self._dataset.train, self._order, samples, self._shares)

    def _files(self) -> Mapping[str, Iterable[Piece]]:
        files = {MODEL_FILE: self._weights, OPTIMIZER_FILE: self._optimizer.slots}
        arrays = {file: {name: _host(variable) for name, variable in variables.items()} for file, variables in files.items()}
        return {file: array_file.encode(held) for file, held in arrays.items()}

    def _read(self, unread: tuple[Any, Any, Any]) -> tuple[float, float, float]:
        """Loss, gradient norm and the wait; what went wrong on a GPU is heard of here."""
        with lost_workers():
            loss, norm, waited = (float(value) for value in unread)
        return loss, norm, waited

    def _report_step(self, rate: float) -> None:
        if self._unread is None:
            return
        loss, norm, _ = self._read(self._unread)
        self.check()
        waited, self._waited = self._waited, 0.0
        self._report.step(self._at, self._order.epoch(self._at.samples), loss, norm, rate, self._meter.read(waited))


def _noise(seed: int, step: int, micro: int) -> Array:
    """Seed of a micro batch's dropout, int32 ``(2,)``; replicas and layers count on in the second number."""
    digest = hashlib.sha256(f"{_PREFIX}:{seed}:{step}:{micro}".encode()).digest()
    return np.array([int.from_bytes(digest[:4], "little") >> 1, 0], dtype=np.int32)


def _host(variable: Any) -> Array:
    """The first replica's copy."""
    array: Array = tf.convert_to_tensor(variable).numpy()
    return array


def _restore(variables: Mapping[str, Any], arrays: Mapping[str, Array], what: str) -> None:
    """Put arrays back on every replica. Raises :class:`InvalidRunError` where the checkpoint is of something else."""
    for name in sorted(variables.keys() | arrays.keys()):
        ours = tuple(variables[name].shape) if name in variables else "absent"
        theirs = tuple(arrays[name].shape) if name in arrays else "absent"
        if ours != theirs:
            raise InvalidRunError(
                f"the checkpoint holds another {what}: {name} is {theirs} there and {ours} in this run; an edited {what} needs a "
                "checkpoint directory of its own"
            )
    for name, variable in variables.items():
        variable.assign(arrays[name])
