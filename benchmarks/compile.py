"""A thousand runs: our `check` and `synth`, beside a cdk8s program that makes the same objects without resolving anything.

    .venv/bin/python benchmarks/compile.py [RUNS] [ROUNDS]

Writes projects of a quarter, a half and all of RUNS (default 1,000) into a temporary folder, and measures whole commands on
them in turns, ROUNDS times (default 3): `trainwright synth` into an empty dist/, the program of idiomatic.py,
`trainwright check`, `trainwright synth` after an edit of one run, `trainwright diff` of that edit, and `kubectl kustomize` where
there is one. Prints medians:
seconds, objects a second, peak memory, growth, and the ratios of neighbouring measurements with their aims. Nothing needs a
network, and a missed aim fails nothing.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from pathlib import Path

import yaml
from compile_project import CLUSTERS, write_project
from process_tree import Measured, measure

from trainwright.cdk8s.node import prepare_node

HERE = Path(__file__).resolve().parent
TRAINWRIGHT = Path(sys.executable).with_name("trainwright")

AIMS = (
    ("synth", "beat the idiomatic program by 1.5, aim at 3"),
    ("check", "at least 5 times as fast as the idiomatic program"),
    ("one edit", "about as fast as check"),
    ("diff", "at least two thirds of the ratio of check: it may take 1.5 times as long"),
)


@dataclass(frozen=True, slots=True)
class Workbench:
    """A project on disk, and what the sides write beside it."""

    root: Path
    runs: int

    @property
    def project(self) -> Path:
        return self.root / "project"

    @property
    def before(self) -> Path:
        """The project as it was prepared."""
        return self.root / "before"

    @property
    def dist(self) -> Path:
        return self.project / "dist"

    @property
    def typed(self) -> Path:
        """Where the idiomatic program writes."""
        return self.root / "typed"

    @property
    def manifests(self) -> Path:
        """The objects of ``dist/`` as JSON: what the idiomatic program is given."""
        return self.root / "manifests.json"


Round = dict[str, Measured]
"""Side -> one measurement of it."""


def main(runs: int, rounds: int) -> int:
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # or each command of ours would compile its modules again
    sizes = sorted({max(1, runs // 4), max(1, runs // 2), runs})
    _print_machine()
    with tempfile.TemporaryDirectory(prefix="trainwright-bench-") as folder:
        benches = [_prepare(Path(folder) / str(size), size) for size in sizes]
        objects = {bench.runs: _assert_identical(bench) for bench in benches}
        results: dict[int, list[Round]] = {bench.runs: [] for bench in benches}
        for _ in range(rounds):
            for bench in benches:
                results[bench.runs].append(_round(bench))
    for size, measured in results.items():
        _print_size(size, objects[size], measured)
    _print_growth(results)
    _print_ratios(results[runs])
    print(f"load at the end {os.getloadavg()[0]:.1f}")
    return 0


def _prepare(root: Path, runs: int) -> Workbench:
    """A project with its dist/, and the idiomatic program's files: also what warms the disk cache."""
    bench = Workbench(root, runs)
    write_project(bench.project, runs)
    _synth(bench)
    shutil.copytree(bench.project, bench.before)
    bench.manifests.write_text(json.dumps(_objects(bench.dist)), encoding="utf-8")
    _idiomatic(bench)
    for cluster in CLUSTERS:
        files = sorted(path.relative_to(bench.dist / cluster).as_posix() for path in (bench.dist / cluster).rglob("*.k8s.yaml"))
        folder = root / "kustomize" / cluster
        shutil.copytree(bench.dist / cluster, folder)
        (folder / "kustomization.yaml").write_text(json.dumps({"resources": files}), encoding="utf-8")
    return bench


def _assert_identical(bench: Workbench) -> int:
    """Both sides made the same objects, file by file and in the same order; how many."""
    ours, theirs = _objects(bench.dist), _objects(bench.typed)
    different = [path for path in ours.keys() | theirs.keys() if ours.get(path) != theirs.get(path)]
    if different:
        sys.exit(f"the idiomatic program makes other objects in {len(different)} files, for example {min(different)}")
    return sum(len(objects) for objects in ours.values())


def _objects(folder: Path) -> dict[str, list[object]]:
    """Path below the folder -> parsed objects, keys and all."""
    return {
        path.relative_to(folder).as_posix(): list(yaml.load_all(path.read_bytes(), yaml.CSafeLoader))
        for path in sorted(folder.rglob("*.k8s.yaml"))
    }


def _round(bench: Workbench) -> Round:
    """Every side once, neighbours in time."""
    sides = {"synth": _synth(bench), "idiomatic": _idiomatic(bench), "check": _check(bench), "one edit": _one_edit(bench)}
    sides["diff"] = _diff(bench)
    return {**sides, "kustomize": _kustomize(bench)} if shutil.which("kubectl") else sides


def _synth(bench: Workbench) -> Measured:
    shutil.rmtree(bench.dist, ignore_errors=True)
    shutil.rmtree(bench.project / "charts" / "lock", ignore_errors=True)
    return measure([str(TRAINWRIGHT), "synth", "--project", str(bench.project)])


def _check(bench: Workbench) -> Measured:
    return measure([str(TRAINWRIGHT), "check", "--project", str(bench.project)])


def _one_edit(bench: Workbench) -> Measured:
    """`synth` after an edit of one run that the last synth wrote; the edit is another one each time."""
    run = min((bench.project / "charts" / "runs").glob("*.yaml"))
    text = run.read_text(encoding="utf-8").partition("attempt:")[0]
    run.write_text(f"{text}attempt: {2 + time.time_ns() % 10**6}\n", encoding="utf-8")
    return measure([str(TRAINWRIGHT), "synth", "--project", str(bench.project)])


def _diff(bench: Workbench) -> Measured:
    """Of the last edit, against the project as it was prepared."""
    return measure([str(TRAINWRIGHT), "diff", str(bench.before), "--project", str(bench.project)])


def _idiomatic(bench: Workbench) -> Measured:
    """Without what it takes to work its constructor calls out, which a program has in its source."""
    shutil.rmtree(bench.typed, ignore_errors=True)
    whole = measure([sys.executable, str(HERE / "idiomatic.py"), str(bench.manifests), str(bench.typed)])
    return whole.less(float(whole.output))


def _kustomize(bench: Workbench) -> Measured:
    """One kustomization a cluster, for it refuses an object that two clusters have."""
    parts = [measure(["kubectl", "kustomize", str(bench.root / "kustomize" / cluster)]) for cluster in CLUSTERS]
    peak = max(parts, key=lambda part: sum(part.peaks.values())).peaks
    return Measured(sum(part.seconds for part in parts), peak, "")


def _print_machine() -> None:
    try:
        packages = ", ".join(f"{name} {version(name)}" for name in ("cdk8s", "cdk8s-plus-33", "jsii", "pydantic"))
    except PackageNotFoundError as error:
        sys.exit(f"{error.name} is missing: `make bench` installs everything that this needs")
    node = subprocess.run([prepare_node(), "--version"], capture_output=True, text=True, check=True).stdout.strip()
    print(f"{os.cpu_count()} CPUs, Python {platform.python_version()}, Node {node}, {packages}")
    load = os.getloadavg()[0]
    print(f"load at the start {load:.1f}{': the machine is busy, trust the ratios more than the seconds' if load > 0.5 else ''}")


def _median(rounds: Sequence[Round], side: str) -> float:
    return statistics.median(one[side].seconds for one in rounds)


def _print_size(runs: int, objects: int, rounds: Sequence[Round]) -> None:
    print(f"\n{runs:,} runs on {len(CLUSTERS)} clusters, {objects:,} objects, median of {len(rounds)} rounds")
    for side in rounds[0]:
        seconds = _median(rounds, side)
        peaks = {name: max(one[side].peaks.get(name, 0) for one in rounds) for name in sorted(rounds[0][side].peaks)}
        memory = ", ".join(f"{name} {peak / 2**20:.0f} MiB" for name, peak in peaks.items())
        each = f"{1000 * seconds / runs:6.2f} ms a run   {objects / seconds:6.0f} objects/s"
        print(f"  {side:<10} {seconds:7.2f} s   {each}   {memory}")


def _print_growth(results: dict[int, list[Round]]) -> None:
    """What a further run costs, from one size to the next: equal when growth is linear."""
    sizes = sorted(results)
    print("\nms for each further run (equal: growth is linear)")
    for side in results[sizes[-1]][0]:
        steps = [
            f"{before:,} to {after:,}: "
            f"{1000 * (_median(results[after], side) - _median(results[before], side)) / (after - before):.2f}"
            for before, after in pairwise(sizes)
        ]
        print(f"  {side:<10} {'   '.join(steps)}")


def _print_ratios(rounds: Sequence[Round]) -> None:
    print("\nidiomatic seconds / our seconds, median over rounds")
    for side, aim in AIMS:
        ratio = statistics.median(one["idiomatic"].seconds / one[side].seconds for one in rounds)
        print(f"  {side:<10} {ratio:.2f}   ({aim})")


if __name__ == "__main__":
    asked = dict(zip(("runs", "rounds"), map(int, sys.argv[1:]), strict=False))
    sys.exit(main(asked.get("runs", 1000), asked.get("rounds", 3)))
