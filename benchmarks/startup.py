"""How long a command takes to answer, beside what the import of cdk8s alone would cost.

    .venv/bin/python benchmarks/startup.py [RUN] [ROUNDS]

Prints the median seconds of ``trainwright plan RUN`` and of ``python -c "import cdk8s"`` in the same environment, and the median
of the ratios of neighbouring rounds, which a machine that is busy for a while disturbs least. The aim is a ratio of 0.5 or less.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
AIM = 0.5


def seconds(command: list[str]) -> float:
    """Wall-clock time of a command that must succeed."""
    started = time.perf_counter()
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - started


def main(run: str, rounds: int) -> int:
    """Measure in turns, after one round that only warms the disk cache and leaves the bytecode of our modules behind."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    plan = [str(Path(sys.executable).with_name("trainwright")), "plan", run]
    cdk8s = [sys.executable, "-c", "import cdk8s"]
    pairs = [(seconds(plan), seconds(cdk8s)) for _ in range(rounds + 1)][1:]
    ratio = statistics.median(ours / theirs for ours, theirs in pairs)
    print(f"trainwright plan {run}   {statistics.median(ours for ours, _ in pairs):.3f} s")
    print(f"import cdk8s   {statistics.median(theirs for _, theirs in pairs):.3f} s")
    print(f"ratio   {ratio:.2f}, median of {rounds} rounds; the aim is {AIM} or less")
    return 0 if ratio <= AIM else 1


if __name__ == "__main__":
    asked = dict(zip(("run", "rounds"), sys.argv[1:], strict=False))
    sys.exit(main(asked.get("run", "digits-ddp"), int(asked.get("rounds", 15))))
