"""What checkpoints cost a run: stalls of the background save and of the blocking one, and the time to resume.

    .venv-bench/bin/python benchmarks/checkpoint.py [--rounds 3] [--ranks 2] [--engines ddp,fsdp2] [--directory DIR] [--json FILE]

Supervised pods of CPU ranks train a model of 30 million parameters (a checkpoint of 360 MB) three ways in turns: without
periodic saves, with background saves, with blocking ones. Two figures for each, from the moments at which steps were logged:

- stall: from the step of a save to the next, beyond the median step without saves of the same round;
- cost: what the whole stretch takes longer than without saves, for each save. It holds what a save in the background takes away
  from the steps that it runs beside. On a machine with as many ranks as cores that is nearly all of its work; a rank on a GPU
  leaves the cores to it.

Then the run is resumed from its last checkpoint, beside a run that starts fresh, and its files are verified and read again. What
hashing costs alone is told by checkpoint_hash.py. No figure fails anything.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

from machine import Machine
from train_side import OURS, Trace, run_side
from train_spec import MINUTE, SMALL, Case, write_tokens

from trainwright_trainer.checkpoint import CheckpointStore

ENGINES = ("ddp", "fsdp2")
WAYS = ("none", "background", "blocking")
SAVES = 3
PACKAGES = ("torch", "transformers", "xxhash")


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps of a run: ``every`` steps a save, and a few after the last one."""

    case: Case
    every: int

    @property
    def saved(self) -> tuple[int, ...]:
        return tuple(self.every * number for number in range(1, SAVES + 1))


@dataclass(frozen=True, slots=True)
class Saving:
    """Of one run with periodic saves, in seconds for each save; means over the run's saves."""

    stall: float
    cost: float
    commit: float
    """From the beginning of a save to its commit."""


@dataclass(frozen=True, slots=True)
class Resume:
    """Seconds. Fresh and resumed: from the start of the pod to the first step."""

    fresh: float
    resumed: float
    verify: float
    """Of all files by one process, as a resume does before it loads anything; its ranks share the work."""
    read: float
    """The same files, read and nothing else."""
    gigabytes: float


def main(arguments: argparse.Namespace) -> int:
    plan, files = _plan(arguments)
    machine = Machine.describe(PACKAGES)
    print(machine)
    print(f"{plan.case.model.parameters / 1e6:.1f} M parameters, {SAVES} saves a run, {arguments.ranks} ranks, "
          f"{arguments.rounds} rounds", flush=True)
    with tempfile.TemporaryDirectory(prefix="trainwright-bench-", dir=arguments.directory) as folder:
        tokens = Path(folder) / "tokens.bin"
        write_tokens(tokens, files)
        savings: dict[str, dict[str, list[Saving]]] = {}
        for engine in arguments.engines:
            rounds = [_round(plan, engine, number, tokens, Path(folder)) for number in range(arguments.rounds)]
            savings[engine] = {way: [one[way] for one in rounds] for way in WAYS[1:]}
        resumes = [_resume(plan, tokens, Path(folder) / f"resume-{number}") for number in range(arguments.rounds)]
    for engine, ways in savings.items():
        _print_savings(engine, ways)
    _print_resumes(resumes)
    if arguments.json:
        document = {
            "machine": asdict(machine),
            "case": asdict(plan.case) | {"model": plan.case.model.model_dump()},
            "saves": {
                engine: {way: [asdict(one) for one in each] for way, each in ways.items()} for engine, ways in savings.items()
            },
            "resumes": [asdict(one) for one in resumes],
        }
        arguments.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(f"load at the end {os.getloadavg()[0]:.1f}")
    return 0


def _plan(arguments: argparse.Namespace) -> tuple[Plan, int | None]:
    every = 4 if arguments.smoke else 8
    steps = every * SAVES + every // 2
    model, length, files = (MINUTE, 64, 40) if arguments.smoke else (SMALL, 128, None)
    case = Case(model, length, 1, 1, steps, warm_up_steps=2, log_every_steps=1, processes=arguments.ranks)
    return Plan(case, every), files


def _round(plan: Plan, engine: str, number: int, tokens: Path, folder: Path) -> dict[str, Saving]:
    """Every way once, neighbours in time."""
    traces = {}
    for way in [*WAYS[number % len(WAYS):], *WAYS[:number % len(WAYS)]]:
        place = folder / f"{engine}-{number}-{way}"
        checkpoints: dict[str, object] = {"directory": str(place / "checkpoints")}
        if way != "none":
            checkpoints |= {"every_steps": plan.every, "save": way}
        spec = plan.case.specification(tokens, place, engine=engine, checkpoints=checkpoints)
        traces[way] = run_side(OURS, spec, place, threads=1)
        shutil.rmtree(place)
        print(f"  {engine:<6} round {number + 1}  {way:<10} {_stretch(plan, traces[way]):6.1f} s", flush=True)
    return {way: _saving(plan, traces[way], traces["none"]) for way in WAYS[1:]}


def _saving(plan: Plan, trace: Trace, without: Trace) -> Saving:
    usual = statistics.median(_gaps(without)[step] for step in range(plan.case.warm_up_steps, plan.case.steps))
    stalls = [_gaps(trace)[step] - usual for step in plan.saved]
    commits = [float(event["seconds"]) for event in trace.events if event["event"] == "checkpoint_committed"]
    longer = _stretch(plan, trace) - _stretch(plan, without)
    return Saving(statistics.mean(stalls), longer / SAVES, statistics.mean(commits[:SAVES]))


def _gaps(trace: Trace) -> dict[int, float]:
    """Step -> seconds from its line to the next one's."""
    return {step: later - earlier for (step, earlier), (_, later) in pairwise(sorted(trace.steps().items()))}


def _stretch(plan: Plan, trace: Trace) -> float:
    """Seconds of all steps after the first ones, with every save that began among them."""
    moments = trace.steps()
    return moments[plan.case.steps] - moments[plan.case.warm_up_steps]


def _resume(plan: Plan, tokens: Path, folder: Path) -> Resume:
    """Run, and run on from its last checkpoint."""
    first, then = folder / "first", folder / "then"
    fresh = run_side(OURS, plan.case.specification(tokens, first), first, threads=1)
    further = plan.case.specification(
        tokens, then, duration={"steps": plan.case.steps + 1}, checkpoints={"directory": str(first / "checkpoints")}
    )
    verify, read, size = _read_back(first / "checkpoints")
    resumed = run_side(OURS, further, then, threads=1)
    resumed.moment("restored", step=plan.case.steps)
    shutil.rmtree(folder)
    return Resume(_start(fresh), _start(resumed), verify, read, size)


def _start(trace: Trace) -> float:
    """Seconds from the start of the pod to the first step: imports, meeting, data, model, restore, a trial micro batch."""
    return trace.moment("run_started") - trace.started


def _read_back(directory: Path) -> tuple[float, float, float]:
    """Seconds to verify and to read the newest checkpoint, and its gigabytes."""
    store = CheckpointStore(directory)
    record = store.records()[0]
    paths = [store.path(record, digest.name) for digest in record.files]
    read = _seconds(lambda: [_read(path) for path in paths])
    problems: list[object] = []
    verify = _seconds(lambda: problems.extend(store.verify(record)))
    if problems:
        sys.exit(f"{directory} does not verify: {problems[0]}")
    return verify, read, sum(path.stat().st_size for path in paths) / 1e9


def _read(path: Path) -> None:
    """All of a file through one buffer: into fresh memory, finding the memory would take longer than reading."""
    buffer = bytearray(4 << 20)
    with path.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


def _seconds(act: Callable[[], object]) -> float:
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


def _print_savings(engine: str, ways: dict[str, list[Saving]]) -> None:
    print(f"\n{engine}: seconds a save, median of rounds (least to most)")
    for way, each in ways.items():
        figures = [f"{name} {_spread([getattr(one, name) for one in each])}" for name in ("stall", "cost", "commit")]
        print(f"  {way:<10} {'   '.join(figures)}")
    for name in ("stall", "cost"):
        pairs = zip(ways["background"], ways["blocking"], strict=True)
        ratios = [getattr(background, name) / getattr(blocking, name) for background, blocking in pairs]
        print(f"  {name} of the background save over that of the blocking one   {_spread(ratios)}")


def _print_resumes(resumes: Sequence[Resume]) -> None:
    print(f"\nresume of {resumes[0].gigabytes:.2f} GB, ddp, seconds")
    print(f"  from the start of the pod to the first step   fresh {_spread([one.fresh for one in resumes])}   "
          f"resumed {_spread([one.resumed for one in resumes])}")
    print(f"  resumed over fresh   {_spread([one.resumed / one.fresh for one in resumes])}")
    print(f"  verifying {_spread([one.verify for one in resumes])}, over reading alone "
          f"{_spread([one.verify / one.read for one in resumes])}")


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def _engines(text: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in ENGINES]:
        raise argparse.ArgumentTypeError(f"no engine {', '.join(unknown)} here; there are: {', '.join(ENGINES)}")
    return names


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ranks", type=int, default=2, help="fewer than processors, to leave one to the writer")
    parser.add_argument("--directory", type=Path, help="where checkpoints go; the system's temporary folder by default")
    parser.add_argument("--engines", type=_engines, default=list(ENGINES), help=",".join(ENGINES))
    parser.add_argument("--json", type=Path, help="write everything here too")
    parser.add_argument("--smoke", action="store_true", help="a minute model, to try this out: the figures mean nothing")
    sys.exit(main(parser.parse_args()))
