"""``python -m tests.fuzz 100000``: break runs and profiles, and print what does not hold."""

from __future__ import annotations

import argparse
import sys
import time

from tests.fuzz.campaign import Campaign

parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
parser.add_argument("inputs", type=int, help="how many")
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--first", type=int, default=0, help="number of the first input")
asked = parser.parse_args()

campaign, shown, started = Campaign(asked.seed), 0, time.monotonic()


def progress(current: Campaign) -> None:
    """Each failure once, and a line now and then."""
    global shown
    for failure in current.failures[shown:]:
        print(failure, flush=True)
    shown = len(current.failures)
    if current.counts["inputs"] % 1000 == 0:
        print(f"{dict(current.counts)} in {time.monotonic() - started:.0f} s", flush=True)


campaign.run(range(asked.first, asked.first + asked.inputs), progress)
progress(campaign)
print(f"{dict(campaign.counts)} in {time.monotonic() - started:.0f} s")
sys.exit(1 if campaign.failures else 0)
