"""What a script's hand costs: a step, the question whether to stop, and the import, under a real supervisor.

    .venv/bin/python benchmarks/hand.py

The aim is 20 µs or less for `run.step` and 50 ms or less for the import, each the best of several rounds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from trainwright_trainer.commands.local import free_ports
from trainwright_trainer.contract.layout import BIND_ENV, SPEC_ENV

STEP_AIM, IMPORT_AIM = 20e-6, 0.05
MEASURED = """
import json, sys, time
before = time.perf_counter()
from trainwright_trainer import run
imported = time.perf_counter() - before
def best(call, rounds=20, calls=5000):
    found = []
    for round in range(rounds):
        began = time.perf_counter()
        for n in range(round * calls, (round + 1) * calls):
            call(n)
        found.append((time.perf_counter() - began) / calls)
    return min(found), max(found)
print(json.dumps({
    "import": imported, "step": best(lambda n: run.step(n, loss=0.5, samples=8 * n)),
    "should_stop": best(lambda n: run.should_stop()),
}), file=open(sys.argv[1], "w"))
"""


def measured(folder: Path) -> Any:
    """By a script of one rank under a supervisor."""
    control, rendezvous, http = free_ports(3)
    answer = folder / "answer.json"
    spec = {
        "run": "hand", "identity": "hand-1a2b3c", "http_port": http, "lifecycle": {"grace_seconds": 30},
        "world": {
            "nodes": 1, "processes_per_node": 1, "device": "cpu", "node_index_env": "NODE_INDEX", "control_port": control,
            "rendezvous": {"kind": "static", "host": "127.0.0.1", "port": rendezvous},
        },
        "work": {"kind": "script", "command": [sys.executable, "-c", MEASURED, str(answer)]},
    }
    (folder / "run.json").write_text(json.dumps(spec))
    told = {SPEC_ENV: str(folder / "run.json"), BIND_ENV: "127.0.0.1", "NODE_INDEX": "0"}
    supervise = [sys.executable, "-m", "trainwright_trainer", "supervise"]
    subprocess.run(supervise, env={**os.environ, **told}, check=True, stdout=subprocess.DEVNULL)
    return json.loads(answer.read_text())


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        rounds = [measured(Path(folder)) for _ in range(5)]
    imported = min(found["import"] for found in rounds)
    step, ask = (min(found[name][0] for found in rounds) for name in ("step", "should_stop"))
    slowest = max(found["step"][1] for found in rounds)
    print(f"import        {imported * 1e3:.1f} ms; the aim is {IMPORT_AIM * 1e3:.0f} or less")
    print(f"run.step      {step * 1e6:.2f} µs, the slowest round {slowest * 1e6:.2f}; the aim is {STEP_AIM * 1e6:.0f} or less")
    print(f"should_stop   {ask * 1e6:.2f} µs")
    return 0 if step <= STEP_AIM and imported <= IMPORT_AIM else 1


if __name__ == "__main__":
    sys.exit(main())
