"""One bench: some steps of a run through its real supervisor, in a temporary directory, with no save between them.

What it found comes from what the ranks said of their steps. Model FLOPs are the operations that training asks for, by formula;
what share of a device's speed they come to is the MFU.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

from trainwright_trainer import __version__
from trainwright_trainer.commands.local import LocalPod, LocalRun, local_run
from trainwright_trainer.commands.local.world import short_run, witnessed_training
from trainwright_trainer.contract.data import HFDataset, PythonSource, TokenFiles
from trainwright_trainer.contract.failures import InvalidRunError
from trainwright_trainer.contract.model import Bert, Llama, ViT
from trainwright_trainer.contract.spec_file import Specification
from trainwright_trainer.contract.training import Training
from trainwright_trainer.rank.place import available_cpus
from trainwright_trainer.training.witness import WITNESS_ENV, StepTime, read_account

FORMULA = "6 x (N - E) + 12 x layers x hidden x length"
"""For each token: see :func:`model_flops`."""
_HALF_PEAKS = {
    "NVIDIA A100-SXM4-40GB": 312.0,
    "NVIDIA A100-SXM4-80GB": 312.0,
    "NVIDIA A100-PCIE-40GB": 312.0,
    "NVIDIA A100 80GB PCIe": 312.0,
    "NVIDIA H100 80GB HBM3": 989.0,
    "NVIDIA H100 PCIe": 756.0,
    "NVIDIA H200": 989.0,
}
"""Name of a GPU as its driver gives it -> dense products in bf16 or fp16, 10^12 operations a second (NVIDIA's data sheets, which
print twice that for some of them, with sparsity)."""


@dataclass(frozen=True, slots=True)
class ModelFlops:
    """Of a forward and a backward pass, without what is computed twice."""

    each: int
    """Floating point operations for one unit."""
    unit: str
    """``token`` or ``sample``."""
    formula: str


def model_flops(training: Training) -> ModelFlops | None:
    """None where there is no formula for the architecture.

    ``6 (N - E) + 12 layers x hidden x length`` for each token: two operations a weight forward and four backward, and the two
    products of attention, without a discount for a causal mask (Chowdhery et al. 2022, PaLM, arXiv:2204.02311, appendix B). E are
    the weights of tables that are looked up only; a table that is the head too is a matrix product, and counts.
    """
    model, data = training.model, training.data
    if isinstance(model, ViT):
        length = model.sequence_length
        token = _token(model.parameters - model.hidden_size * (length + 1), model.num_hidden_layers, model.hidden_size, length)
        return ModelFlops(token * length, "sample", f"length x ({FORMULA})")
    if not isinstance(data, TokenFiles | PythonSource | HFDataset):
        return None
    length = data.sequence_length
    if isinstance(model, Llama):
        return ModelFlops(llama_token_flops(model, length), "token", FORMULA)
    if isinstance(model, Bert):
        rows = model.max_position_embeddings + model.type_vocab_size + (0 if model.num_labels is None else model.vocab_size)
        weights = model.parameters - rows * model.hidden_size
        return ModelFlops(_token(weights, model.num_hidden_layers, model.hidden_size, length), "token", FORMULA)
    return None


def llama_token_flops(model: Llama, length: int) -> int:
    """Floating point operations that training on one token of a sequence of ``length`` asks for."""
    table = 0 if model.tie_word_embeddings else model.vocab_size * model.hidden_size
    return _token(model.parameters - table, model.num_hidden_layers, model.hidden_size, length)


def known_peak(device: str, precision: str) -> float | None:
    """Operations a second of one device; None where no data sheet was looked up, or training in fp32 would not be held to it."""
    peak = _HALF_PEAKS.get(device) if precision in ("bf16", "fp16") else None
    return None if peak is None else peak * _TERA


def _token(weights: int, layers: int, hidden: int, length: int) -> int:
    return 6 * weights + 12 * layers * hidden * length


_TENTHS = 10
_GIGA, _TERA, _MEBI = 1e9, 1e12, 2**20


@dataclass(frozen=True, slots=True)
class Speed:
    """Of the steps that were measured."""

    steps: int
    warm_up: int
    """Steps before them."""
    samples_per_second: float
    """Of all ranks together."""
    tokens_per_second: float | None
    """The same in tokens, padding included; None for images."""
    step_seconds: float
    """Median."""
    step_seconds_p10: float
    step_seconds_p90: float
    data_share: float
    """Of the time, in which the rank that waited longest had no data."""
    data_rank: int
    peak_bytes: int
    """Most memory of any rank: of the GPU what torch took, else what was resident."""
    device: str
    """Name of the GPU, or ``cpu``."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Everything that a bench reports."""

    identity: str
    engine: str
    precision: str
    ranks: int
    step_samples: int
    trainer: str
    """Version."""
    torch: str
    cpus: int
    speed: Speed
    flops: int | None
    """Of one ``flops_unit``."""
    flops_unit: str | None
    flops_formula: str | None
    peak_flops: float | None
    """A second, of one device."""
    mfu: float | None


def speed(accounts: Mapping[int, Sequence[StepTime]], warm_up: int, steps: int, samples: int, tokens_each: int | None) -> Speed:
    """Figures of ``steps`` steps after the first ``warm_up``.

    Args:
        accounts: Rank -> its steps from the first on; at least ``warm_up + steps`` of each. ``warm_up`` is at least 1.
        samples: Of one step, all ranks together.
        tokens_each: Of one sample, for text.
    """
    measured = {rank: account[warm_up - 1:warm_up + steps] for rank, account in accounts.items()}
    durations = [later.at - earlier.at for earlier, later in pairwise(measured[0])]
    total = measured[0][-1].at - measured[0][0].at
    waits = {rank: sum(step.data_seconds for step in account[1:]) for rank, account in measured.items()}
    slowest = max(waits, key=lambda rank: waits[rank])
    tenths = statistics.quantiles(durations, n=_TENTHS, method="inclusive")
    per_second = steps * samples / total
    return Speed(
        steps=steps,
        warm_up=warm_up,
        samples_per_second=per_second,
        tokens_per_second=None if tokens_each is None else per_second * tokens_each,
        step_seconds=statistics.median(durations),
        step_seconds_p10=tenths[0],
        step_seconds_p90=tenths[-1],
        data_share=min(1.0, waits[slowest] / total),
        data_rank=slowest,
        peak_bytes=max(account[-1].peak_bytes for account in measured.values()),
        device=measured[0][-1].device,
    )


def report(figures: Figures) -> str:
    """Lines of a name and a figure, aligned."""
    rows = list(_rows(figures))
    width = max(len(name) for name, _ in rows)
    head = (
        f"{figures.identity}: {figures.engine}, {figures.ranks} rank{'s' if figures.ranks > 1 else ''} on "
        f"{figures.speed.device}, {figures.precision}, {figures.step_samples:,} samples a step"
    )
    return "\n".join([head, *(f"  {name:<{width}}  {text}" for name, text in rows)])


def _rows(figures: Figures) -> Iterator[tuple[str, str]]:
    speed = figures.speed
    yield "measured", f"{speed.steps} steps, after {speed.warm_up} to warm up; no saves between them"
    tokens = "" if speed.tokens_per_second is None else f"{speed.tokens_per_second:,.0f} tokens a second, "
    yield "speed", f"{tokens}{speed.samples_per_second:,.1f} samples a second"
    yield "step", (
        f"{_seconds(speed.step_seconds)} median, {_seconds(speed.step_seconds_p10)} p10, {_seconds(speed.step_seconds_p90)} p90"
    )
    yield "data", f"{speed.data_share:.1%} of the time waiting for it (rank {speed.data_rank}, which waited longest)"
    kind = "resident" if speed.device == "cpu" else "taken by torch on the GPU"
    yield "memory", f"{speed.peak_bytes / _MEBI:,.0f} MiB at most in a rank ({kind})"
    if figures.flops is None:
        yield "model FLOPs", "unknown: there is no formula for this architecture"
        return
    yield "model FLOPs", f"{figures.flops / _GIGA:,.3f} GFLOP a {figures.flops_unit}: {figures.flops_formula}"
    if figures.mfu is None or figures.peak_flops is None:
        yield "MFU", "unknown: give the peak of this device with --peak-tflops"
    else:
        yield "MFU", f"{figures.mfu:.1%} of {figures.peak_flops / _TERA:,.1f} TFLOP/s a device"


def _seconds(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms" if seconds < 1 else f"{seconds:.3f} s"


LEAST_STEPS = 10
"""Tenths of fewer than these mean nothing."""


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
