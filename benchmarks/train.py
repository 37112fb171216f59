"""Our trainer beside a bare DDP loop, transformers' Trainer, accelerate and Lightning Fabric: tokens a second on two CPU ranks.

    .venv-bench/bin/python benchmarks/train.py [--rounds 5] [--steps 50] [--peers bare,fabric] [--json FILE] [--smoke]

Every side trains the same model on the same samples in the same order from one specification (train_spec.py), in turns, two
processes on the loopback with one thread each. Ours is the whole thing: a supervised pod. Speed comes from the moments at which
steps were logged, the first ones left out. Before a ratio is printed, the held-out losses at the end have to agree. The aims are
0.97 of the bare loop, and not slower than any other. A missed aim fails nothing; losses that disagree do.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from machine import Machine
from paired import ratio
from train_side import OURS, Trace, run_side
from train_spec import MINUTE, TINY, Case, write_tokens

PEERS = {
    "bare": "bare DDP loop", "hf_trainer": "transformers Trainer", "hf_accelerate": "accelerate", "fabric": "Lightning Fabric",
}
AIMS = {"bare": 0.97}
"""For the others: 1, not slower."""
LOSS_TOLERANCE = 5e-6
"""Relative. Sides sum in different orders; a setting that differs shows in more digits than this after a few steps."""
PACKAGES = ("torch", "transformers", "accelerate", "lightning-fabric")

Round = dict[str, Trace]
"""Side -> one run of it."""


def main(arguments: argparse.Namespace) -> int:
    case, files = _case(arguments)
    sides = [OURS, *arguments.peers]
    machine = Machine.describe(PACKAGES)
    print(machine)
    print(f"{case.model.parameters / 1e6:.1f} M parameters, {case.step_tokens} tokens a step, {case.steps} steps, "
          f"{case.warm_up_steps} of them not measured, {arguments.rounds} rounds", flush=True)
    with tempfile.TemporaryDirectory(prefix="trainwright-bench-") as folder:
        tokens = Path(folder) / "tokens.bin"
        write_tokens(tokens, files)
        rounds = [_round(case, sides, number, tokens, Path(folder) / str(number)) for number in range(arguments.rounds)]
    speeds = {side: [one[side].tokens_per_second(case.warm_up_steps, case.step_tokens) for one in rounds] for side in sides}
    losses = {side: [one[side].held_out_loss for one in rounds] for side in sides}
    _print_sides(speeds, losses)
    agree = _print_agreement(losses)
    if agree:
        _print_ratios(speeds)
    if arguments.json:
        arguments.json.write_text(json.dumps(_document(machine, case, speeds, losses, agree), indent=1) + "\n", encoding="utf-8")
    print(f"load at the end {os.getloadavg()[0]:.1f}")
    return 0 if agree else 1


def _case(arguments: argparse.Namespace) -> tuple[Case, int | None]:
    """What to train, and how many files of the standard library its text comes from."""
    if arguments.smoke:
        return Case(MINUTE, 64, micro=2, accumulation=2, steps=12, warm_up_steps=4, log_every_steps=4), 40
    warm_up = log_every = 10
    return Case(TINY, 256, 2, 2, warm_up + arguments.steps, warm_up, log_every), None


def _round(case: Case, sides: Sequence[str], number: int, tokens: Path, folder: Path) -> Round:
    """Every side once, neighbours in time. Each round begins with another side, so none is always the first."""
    shift = number % len(sides)
    traces = {}
    for side in [*sides[shift:], *sides[:shift]]:
        place = folder / side
        traces[side] = run_side(side, case.specification(tokens, place), place, threads=1)
        shutil.rmtree(place)
        speed = traces[side].tokens_per_second(case.warm_up_steps, case.step_tokens)
        print(f"  round {number + 1}  {side:<14} {speed:8.0f} tokens/s", flush=True)
    return traces


def _print_sides(speeds: dict[str, list[float]], losses: dict[str, list[float]]) -> None:
    print(f"\n{'side':<24} {'tokens/s, median':>17} {'least to most':>16}   held-out loss at the end")
    for side, measured in speeds.items():
        spread = f"{min(measured):.0f} to {max(measured):.0f}"
        loss = statistics.median(losses[side])
        print(f"{PEERS.get(side, side):<24} {statistics.median(measured):17.0f} {spread:>16}   {loss:.6f}")


def _print_agreement(losses: dict[str, list[float]]) -> bool:
    """Whether all sides did the same work, as far as the loss tells."""
    reference = losses[OURS][0]
    worst = {side: max(abs(loss / reference - 1) for loss in measured) for side, measured in losses.items()}
    print(f"\nlargest relative difference of a held-out loss: {max(worst.values()):.1e} (at most {LOSS_TOLERANCE:g})")
    for side, difference in worst.items():
        if difference > LOSS_TOLERANCE:
            print(f"no ratios: {PEERS.get(side, side)} ends at another loss, so it does not do the same work")
    return max(worst.values()) <= LOSS_TOLERANCE


def _print_ratios(speeds: dict[str, list[float]]) -> None:
    print("\nour tokens/s over theirs        median   least to most    95 % of resampled medians   aim")
    for side in speeds:
        if side != OURS:
            aim = AIMS.get(side, 1.0)
            found = ratio(speeds[OURS], speeds[side])
            print(f"{PEERS[side]:<31} {found}            {aim:g} {'met' if found.median >= aim else 'missed'}")


def _document(
    machine: Machine, case: Case, speeds: dict[str, list[float]], losses: dict[str, list[float]], agree: bool
) -> dict[str, object]:
    return {
        "machine": asdict(machine),
        "case": asdict(case) | {"model": case.model.model_dump()},
        "tokens_per_second": speeds,
        "held_out_loss": losses,
        "ratios": {side: asdict(ratio(speeds[OURS], speeds[side])) for side in speeds if side != OURS} if agree else None,
    }


def _peers(text: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in PEERS]:
        raise argparse.ArgumentTypeError(f"no peer {', '.join(unknown)}; there are: {', '.join(PEERS)}")
    return names


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=50, help="steps that are measured, a multiple of 10")
    parser.add_argument("--peers", type=_peers, default=list(PEERS), help=",".join(PEERS))
    parser.add_argument("--json", type=Path, help="write everything here too")
    parser.add_argument("--smoke", action="store_true", help="a minute model, to try this out: the figures mean nothing")
    sys.exit(main(parser.parse_args()))
