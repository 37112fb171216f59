"""Planned against measured memory: the most that a rank had resident, for engines that train on CPUs.

    python benchmarks/memory.py [--python deepspeed=.venv-engines/deepspeed/bin/python] [--json FILE]

Each run is compiled as in a project and then trained for some steps by `trainwright-trainer bench`, with all its ranks on this
machine; under Horovod by mpirun. What the plan says of the process itself is an assumption, so that is measured too, with a model
of nearly no parameters, and both are told without it. An engine with an environment of its own runs where --python says that it
is.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from machine import Machine

from trainwright.cluster import Cluster
from trainwright.compile import compile_run
from trainwright.plan import Resolution
from trainwright.run import Run
from trainwright_trainer.contract.layout import SPEC_FILE

MIB = 2**20
RANKS, STEPS, WARM_UP = 2, 10, 1
ENGINES: dict[str, dict[str, Any]] = {
    "ddp": {"kind": "ddp"},
    "fsdp2": {"kind": "zero3", "engine": "fsdp2"},
    "zero-1": {"kind": "zero1", "engine": "deepspeed"},
    "zero-2": {"kind": "zero2", "engine": "deepspeed"},
    "zero-3": {"kind": "zero3", "engine": "deepspeed"},
    "horovod": {"kind": "horovod"},
}
"""All whose memory is planned."""
CLUSTER = {
    "cluster": "here", "kubernetes": "1.34", "operators": {"mpi-operator": {"version": "0.8.0"}},
    "node_pools": {"cpu": {"cpus": 4, "memory": "64Gi"}},
    "namespaces": {"training": {"managed": False, "claims": {"checkpoints": {"managed": False, "access": "ReadWriteMany"}}}},
    "registries": ["registry.example.com"],
}
LARGE = {"hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 8, "num_attention_heads": 8}
"""About 30 million parameters: 114 MiB of weights."""
SMALL = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 1}


class Figure(NamedTuple):
    """One run, in MiB of the rank that had most."""

    engine: str
    accumulation: int
    low: float
    """Of the plan, without the process."""
    high: float
    process_low: float
    """What the plan assumes."""
    process_high: float
    process: float
    """As it was measured."""
    measured: float
    """Process included."""


def main() -> None:
    options = _options()
    print(Machine.describe(("torch",)), "\n")
    pythons = dict(pair.split("=", 1) for pair in options.python)
    figures = []
    for engine in options.engines.split(","):
        python = pythons.get(ENGINES[engine].get("engine", engine), sys.executable)
        process = _measured(_resolved(engine, SMALL, 1), python)
        for accumulation in (1, 2):
            resolution = _resolved(engine, LARGE, accumulation)
            figures.append(_figure(engine, accumulation, resolution, _measured(resolution, python), process))
            print(_line(figures[-1]), flush=True)
    if options.json:
        options.json.write_text(json.dumps([figure._asdict() for figure in figures], indent=1) + "\n", encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engines", default="ddp,fsdp2", help=", ".join(ENGINES))
    parser.add_argument("--python", action="append", default=[], metavar="ENGINE=PATH", help="Python of an engine's environment")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser.parse_args()


def _resolved(engine: str, shape: dict[str, int], accumulation: int) -> Resolution:
    """The run with everything decided, as a project's would be."""
    run = {
        "run": "memory", "team": "benchmarks", "namespace": "training", "cluster": "here",
        **({"target": "mpi-job"} if engine == "horovod" else {}),
        "image": f"registry.example.com/trainer@sha256:{'0' * 64}",
        "topology": {**ENGINES[engine], "nodes": 1, "processes_per_node": RANKS, "gpus_per_node": 0},
        "batch": {"micro": 1, "accumulation": accumulation},
        "learning_rate": {"base": 1e-3},
        "workload": {
            "kind": "trainer", "task": "causal-lm", "precision": "fp32", "steps": STEPS + WARM_UP,
            "model": {"architecture": "llama", "vocab_size": 4096, "max_position_embeddings": 64, **shape},
            "data": {"source": "python-stdlib", "sequence_length": 16},
        },
        "checkpoints": {"save": "blocking"},
        "mounts": {"/checkpoints": {"claim": "checkpoints"}},
    }
    return compile_run(Run.model_validate(run), Cluster.model_validate(CLUSTER)).resolution


def _measured(resolution: Resolution, python: str) -> float:
    """MiB, of the rank that had most resident."""
    with tempfile.TemporaryDirectory(prefix="trainwright-memory-") as name:
        spec, found = Path(name, SPEC_FILE), Path(name, "found.json")
        for payload in resolution.payloads:
            Path(name, payload.key).write_text(payload.text, encoding="utf-8")
        if resolution.run.topology.kind == "horovod":
            return _under_mpirun(spec, python)
        steps = ["--steps", str(STEPS), "--warm-up", str(WARM_UP), "--json", str(found)]
        command = [python, "-m", "trainwright_trainer", "bench", "--spec", str(spec), *steps]
        _run(command)
        return int(json.loads(found.read_text(encoding="utf-8"))["speed"]["peak_bytes"]) / MIB


def _under_mpirun(spec: Path, python: str) -> float:
    """The same of a run whose ranks mpirun starts, which trains, evaluates a batch and saves."""
    data, folder = json.loads(spec.read_text(encoding="utf-8")), spec.parent / "ranks"
    data["work"]["checkpoints"]["directory"], data["work"]["evaluation"] = str(spec.parent / "checkpoints"), {"max_batches": 1}
    spec.write_text(json.dumps(data), encoding="utf-8")
    folder.mkdir()
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    local = ["--oversubscribe", "--bind-to", "none", "--mca", "btl_tcp_if_include", "lo", "-np", str(RANKS)]
    _run(["mpirun", *root, *local, python, str(Path(__file__).with_name("mpi_rank.py")), str(spec), str(folder)])
    return max(int(rank.read_text(encoding="utf-8")) for rank in folder.iterdir()) / MIB


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}")


def _figure(engine: str, accumulation: int, resolution: Resolution, measured: float, process: float) -> Figure:
    memory = resolution.plan.memory
    parts = memory.parts if memory else ()
    states = [part for part in parts if part.name != "framework"]
    [assumed] = [part for part in parts if part.name == "framework"]
    low, high = sum(part.low for part in states) / MIB, sum(part.high for part in states) / MIB
    return Figure(engine, accumulation, low, high, assumed.low / MIB, assumed.high / MIB, process, measured)


def _line(figure: Figure) -> str:
    low, high = figure.low + figure.process_low, figure.high + figure.process_high
    held = "held" if low <= figure.measured <= high else "NOT held"
    states = figure.measured - figure.process
    return (
        f"{figure.engine:<7} accumulation {figure.accumulation}: planned {low:,.0f} to {high:,.0f} MiB, measured "
        f"{figure.measured:,.0f} ({held}); without the process {figure.low:,.0f} to {figure.high:,.0f}, measured {states:,.0f}"
    )


if __name__ == "__main__":
    main()
