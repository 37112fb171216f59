"""One bench: some steps of a run through its real supervisor, in a temporary directory, with no save between them."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from trainwright_trainer import __version__
from trainwright_trainer.commands.bench.figures import Figures, Speed, speed
from trainwright_trainer.commands.bench.flops import known_peak, model_flops
from trainwright_trainer.commands.local import LocalPod, LocalRun, local_run
from trainwright_trainer.commands.local.world import short_run, witnessed_training
from trainwright_trainer.contract.failures import InvalidRunError
from trainwright_trainer.contract.training import Training
from trainwright_trainer.rank.cpus import available_cpus
from trainwright_trainer.rank.specification import Specification
from trainwright_trainer.training.witness import WITNESS_ENV, StepTime, read_account

LEAST_STEPS = 10
"""Tenths of fewer than these mean nothing."""
_TERA = 1e12


@dataclass(frozen=True, slots=True)
class Request:
    """What to measure."""

    specification: Specification
    steps: int
    warm_up: int
    """Steps that are not measured: compilation, caches, a pipeline that fills."""
    processes: int | None = None
    """Default: ranks of the run."""
    peak_tflops: float | None = None
    """Of one device, 10^12 operations a second; default: of its data sheet, where that is known."""


def bench(request: Request) -> Figures:
    """Train and measure. Nothing of the run's own checkpoint directory is touched.

    Raises:
        InvalidRunError: Too few steps, or a run that cannot be measured here.
        PodFailedError: The run failed.
    """
    _check(request)
    spec = request.specification.spec
    training = witnessed_training(spec, "bench")
    with tempfile.TemporaryDirectory(prefix="trainwright-bench-") as name:
        folder = Path(name)
        short = short_run(spec, training, request.warm_up + request.steps, str(folder / "checkpoints"))
        run = local_run(short, request.specification.path, folder, request.processes)
        measured = _measure(run, folder, request)
    return _figures(run, request, measured)


def _check(request: Request) -> None:
    if request.steps < LEAST_STEPS:
        raise InvalidRunError(f"{request.steps} steps are too few to say how long one takes; measure at least {LEAST_STEPS}")
    if request.warm_up < 1:
        raise InvalidRunError("the first step compiles and fills caches, so it cannot be measured; let --warm-up be at least 1")
    if request.peak_tflops is not None and request.peak_tflops <= 0:
        raise InvalidRunError(f"--peak-tflops is {request.peak_tflops:g}; a device's peak is above 0")


def _measure(run: LocalRun, folder: Path, request: Request) -> Speed:
    times = folder / "times"
    with LocalPod(run, folder, {WITNESS_ENV: f"times:{times}"}) as pod:
        pod.succeed()
    accounts = {rank: read_account(times, rank, StepTime) for rank in range(run.spec.world.size)}
    tokens_each = getattr(_work(run).data, "sequence_length", None)
    return speed(accounts, request.warm_up, request.steps, _step_samples(run), tokens_each)


def _figures(run: LocalRun, request: Request, measured: Speed) -> Figures:
    work, ranks = _work(run), run.spec.world.size
    flops = model_flops(work)
    given = None if request.peak_tflops is None else request.peak_tflops * _TERA
    peak = given or known_peak(measured.device, work.precision)
    rate = measured.tokens_per_second if flops is not None and flops.unit == "token" else measured.samples_per_second
    mfu = None if flops is None or peak is None or rate is None else rate * flops.each / (peak * ranks)
    return Figures(
        identity=run.spec.identity,
        engine=work.engine,
        precision=work.precision,
        ranks=ranks,
        step_samples=_step_samples(run),
        trainer=__version__,
        torch=version("torch"),
        cpus=available_cpus(),
        speed=measured,
        flops=None if flops is None else flops.each,
        flops_unit=None if flops is None else flops.unit,
        flops_formula=None if flops is None else flops.formula,
        peak_flops=peak,
        mfu=mfu,
    )


def _step_samples(run: LocalRun) -> int:
    return _work(run).batch.samples(run.spec.world.replicas)


def _work(run: LocalRun) -> Training:
    work = run.spec.work
    if not isinstance(work, Training):
        raise TypeError(f"a bench of {work.kind}")
    return work
