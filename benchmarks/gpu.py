"""Our trainer beside a bare loop, transformers' Trainer and Lightning Fabric on one H100 or H200: tokens a second, MFU, memory.

    .venv-bench/bin/python benchmarks/gpu.py [--rounds 1] [--micro 4] [--sides trainwright,bare] [--json FILE] [--smoke]

A Llama of 1.1 billion parameters, sequences of 2,048 tokens, bf16 autocast over fp32 weights and AdamW states, every block
compiled, one GPU. All sides read one specification (train_spec.py) and take turns on the same card. Speed comes from the moments
at which steps were logged, the first ones left out, which compile. MFU is told against the data sheet and against the fastest
matrix product that this card does before and after (8192 x 8192 x 8192, bf16). One round is meant to take less than ten minutes.
With --smoke all of it runs on a CPU in a few minutes, with a minute model; its figures mean nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path

from gpu_memory import GPUMemory
from machine import Machine
from paired import ratio
from train_side import HERE, OURS, run_side
from train_spec import BILLION, MINUTE, Case, write_tokens

from trainwright_trainer.commands.bench.run import FORMULA, known_peak, llama_token_flops

SIDES = {OURS: OURS, "bare": "bare loop", "hf_trainer": "transformers Trainer", "fabric": "Lightning Fabric"}
LOSS_TOLERANCE = 1e-2
"""Relative, after bf16 steps: sides take the loss from logits of different precision."""
PACKAGES = ("torch", "transformers", "accelerate", "lightning-fabric")
MOST_THREADS = 8


@dataclass(frozen=True, slots=True)
class Product:
    """What gemm.py says."""

    device: str
    cuda: str | None
    flops: float
    """A second."""


@dataclass(slots=True)
class Results:
    """Everything that was measured; what is written and printed."""

    machine: Machine
    product: Product
    """Before the first side; after the last one in :attr:`product_after`."""
    case: Case
    token_flops: int
    product_after: Product | None = None
    tokens_per_second: dict[str, list[float]] = field(default_factory=dict)
    """Side -> rounds."""
    intervals: dict[str, list[float]] = field(default_factory=dict)
    """Side -> tokens a second of each logging interval that was measured, of all rounds."""
    held_out_loss: dict[str, list[float]] = field(default_factory=dict)
    memory_mebibytes: dict[str, int] = field(default_factory=dict)

    def agree(self) -> bool:
        """Whether all sides did the same work, as far as the loss tells."""
        losses = [loss for each in self.held_out_loss.values() for loss in each]
        return max(losses) / min(losses) - 1 <= LOSS_TOLERANCE


def main(arguments: argparse.Namespace) -> int:
    case = _case(arguments)
    machine = Machine.describe(PACKAGES)
    print(machine)
    size = 256 if arguments.smoke else 8192
    results = Results(machine, _product(case.device, size), case, llama_token_flops(case.model, case.sequence_length))
    print(f"{results.product.device}, CUDA {results.product.cuda}; {case.model.parameters / 1e6:.1f} M parameters, "
          f"{case.step_tokens} tokens a step, {case.steps} steps, {case.warm_up_steps} of them not measured", flush=True)
    with tempfile.TemporaryDirectory(prefix="trainwright-bench-", dir=arguments.directory) as folder:
        tokens = Path(folder) / "tokens.bin"
        write_tokens(tokens, 40 if arguments.smoke else None)
        for number in range(arguments.rounds):
            for side in arguments.sides:
                _run(side, case, tokens, Path(folder) / f"{number}-{side}", results)
                _write(arguments.json, results)  # whatever ends this program later, what was measured is kept
    results.product_after = _product(case.device, size)
    _write(arguments.json, results)
    _print_sides(results)
    return _print_ratios(results)


def _case(arguments: argparse.Namespace) -> Case:
    if arguments.smoke:
        return Case(MINUTE, 64, 2, 2, steps=12, warm_up_steps=4, log_every_steps=4, processes=1, precision="bf16", compile=True)
    return Case(
        BILLION, 2048, arguments.micro, 2, steps=10 + arguments.steps, warm_up_steps=10, log_every_steps=10, processes=1,
        device="cuda", precision="bf16", compile=True,
    )


def _product(device: str, size: int) -> Product:
    command = [sys.executable, str(HERE / "gemm.py"), device, str(size)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"no matrix product on {device}:\n{done.stderr[-1000:]}")
    return Product(**json.loads(done.stdout))


def _run(side: str, case: Case, tokens: Path, folder: Path, results: Results) -> None:
    threads = min(MOST_THREADS, os.cpu_count() or 1) if case.device == "cuda" else 1
    memory = GPUMemory() if case.device == "cuda" else None
    with memory or nullcontext():
        trace = run_side(side, case.specification(tokens, folder), folder, threads)
    shutil.rmtree(folder)
    speed = trace.tokens_per_second(case.warm_up_steps, case.step_tokens)
    results.tokens_per_second.setdefault(side, []).append(speed)
    results.intervals.setdefault(side, []).extend(trace.intervals(case.warm_up_steps, case.step_tokens))
    results.held_out_loss.setdefault(side, []).append(trace.held_out_loss)
    if memory is not None:
        results.memory_mebibytes[side] = max(memory.peak_mebibytes, results.memory_mebibytes.get(side, 0))
    print(f"  {SIDES[side]:<22} {speed:9.0f} tokens/s", flush=True)


def _write(path: Path | None, results: Results) -> None:
    if path is not None:
        document = asdict(results) | {"case": asdict(results.case) | {"model": results.case.model.model_dump()}}
        path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _print_sides(results: Results) -> None:
    products = [product.flops for product in (results.product, results.product_after) if product is not None]
    ceiling, measured = max(products), " and ".join(f"{flops / 1e12:.1f}" for flops in products)
    peak = known_peak(results.product.device, "bf16")
    print(f"\nmatrix product before and after: {measured} TFLOP/s; data sheet: {f'{peak / 1e12:.0f}' if peak else 'not known'}")
    print(f"model FLOPs of a token: {FORMULA} = {results.token_flops / 1e9:.3f} GFLOP")
    print(f"\n{'side':<22} {'tokens/s':>9} {'intervals':>18} {'MFU':>7} {'of the product':>15} {'memory':>11}   held-out loss")
    for side, speeds in results.tokens_per_second.items():
        speed, intervals = statistics.median(speeds), results.intervals[side]
        flops = speed * results.token_flops
        shares = f"{f'{flops / peak:.1%}' if peak else 'unknown':>7} {flops / ceiling:15.1%}"
        spread = f"{min(intervals):.0f} to {max(intervals):.0f}"
        memory = f"{results.memory_mebibytes[side] / 1024:.1f} GiB" if side in results.memory_mebibytes else "no GPU"
        loss = statistics.median(results.held_out_loss[side])
        print(f"{SIDES[side]:<22} {speed:9.0f} {spread:>18} {shares} {memory:>11}   {loss:.4f}")


def _print_ratios(results: Results) -> int:
    if not results.agree():
        print(f"\nno ratios: the held-out losses differ by more than {LOSS_TOLERANCE:g}, so the sides did not do the same work")
        return 1
    ours = results.tokens_per_second.get(OURS)
    for side, speeds in results.tokens_per_second.items():
        if ours and side != OURS:
            print(f"our tokens/s over {SIDES[side]}: {ratio(ours, speeds).median:.3f}")
    return 0


def _sides(text: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in SIDES]:
        raise argparse.ArgumentTypeError(f"no side {', '.join(unknown)}; there are: {', '.join(SIDES)}")
    return names


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--steps", type=int, default=40, help="steps that are measured, a multiple of 10")
    parser.add_argument("--micro", type=int, default=4, help="sequences of a micro batch; two micro batches make a step")
    parser.add_argument("--sides", type=_sides, default=list(SIDES), help=",".join(SIDES))
    parser.add_argument("--directory", type=Path, help="for our last checkpoint, of 13 GB; the temporary folder by default")
    parser.add_argument("--json", type=Path, help="write everything here too, after each side")
    parser.add_argument("--smoke", action="store_true", help="on a CPU with a minute model, to try this out")
    sys.exit(main(parser.parse_args()))
