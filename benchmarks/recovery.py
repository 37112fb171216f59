"""Strike a run that recovers in place again and again, and say what an incident costs: our own time and the controller's apart.

    .venv/bin/python -m benchmarks.recovery --incidents 100 --seed 1 --engine ddp --engine fsdp2 --pods 2 --pods 4
    .venv/bin/python -m benchmarks.recovery --incidents 10 --device cuda --kind "rank killed" --kind "rank hung"

From the root of the repository, on Linux. Each pod is a supervisor with one rank. Incidents come in turns, drawn by the seed,
each once the attempt has committed and ranks of the next one are ready; root lets those that import have the processors before
those that train, as on a machine that has enough for both. A pod that ended is replaced alone, after the Job controller's delay
for the nth loss of its index, divided by ``--shorten``. What must hold:

- no pod ends but the one that was struck, and none with 0 before the last step;
- an attempt goes on from the newest commit;
- an incident of a rank costs half of a cold start at most, less the restore (median), and where there are twenty of a kind the
  last ten no more than twice what the first ten did; with ``--quiet``, on a machine without other work, 3 s;
- the final weights, optimizer and random states are byte for byte those of a run that nobody disturbed;
- no process is left, and no segment of shared memory.

How many steps pass until the last incident depends on the machine. So all pods are told to end after it, and start again with a
specification that ends some steps later; the undisturbed run comes last, and makes as many steps.

With ``--device cuda`` one pod trains a Llama of 26 million parameters on one GPU, by bf16 and deterministic kernels: NCCL lets no
two ranks share a GPU.

The first promise that is broken ends the program with 1. Times are from the incident to the first step done after it, less what a
limit of the run waits for by intent: the watchdog's for a hang, that of a silent peer for a lost node. The restore is in them,
and told apart beside them, as rank 0 measures it: from the lease that it holds to the state in every tensor.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any, Literal

from benchmarks import chaos_run
from benchmarks.chaos_run import MARK_ENV, PATIENCE_SECONDS, POLL_SECONDS, BrokenPromiseError, send
from benchmarks.machine import Machine
from tests.processes import is_running, own_network

from trainwright.plan.incident import delay
from trainwright_trainer.checkpoint import CheckpointStore
from trainwright_trainer.commands.local import LocalPod, LocalRun
from trainwright_trainer.commands.local.pod import Event
from trainwright_trainer.commands.local.world import NODE_INDEX_ENV
from trainwright_trainer.contract import ExitCode, RunSpec
from trainwright_trainer.contract.layout import BIND_ENV
from trainwright_trainer.contract.training import Duration
from trainwright_trainer.supervisor.pod.shared_memory import SharedMemory

ENGINES = ("ddp", "fsdp2")
HANG_SECONDS, SILENT_SECONDS = 6.0, 15.0
ENDLESS, LAST_STEPS = 1_000_000, 40
"""Steps of the run while it is struck, and after the last incident."""
ACCUMULATION = 4
"""Steps that take longer are fewer, while an incident waits for ranks that import torch."""
LAST = 19
"""The niceness of a process that takes what others leave."""
KEPT = ("rank killed", "rank hung")
"""Incidents that cost no pod."""
QUIET_SECONDS = 3.0
"""Most for one of these, less the restore, where nothing else runs."""
COMPARED = 10
"""The first and the last of these are held against each other."""


Device = Literal["cpu", "cuda"]
ON_A_GPU: dict[str, Any] = {
    "task": "causal-lm", "precision": "bf16", "deterministic": True,
    "model": {
        "architecture": "llama", "vocab_size": 256, "hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 8,
        "num_attention_heads": 8, "max_position_embeddings": 256,
    },
    "data": {"source": "python-stdlib", "sequence_length": 256, "files": 40},
}
"""Of the work there. A checkpoint has 310 MB."""


def specification(engine: str, pods: int, steps: int, folder: Path, network: str, device: Device = "cpu") -> RunSpec:
    """The run of chaos.py, of other sizes, which recovers in place."""
    content = chaos_run.specification(engine, folder, network).model_dump(mode="json", exclude_none=True)
    content["world"] |= {"nodes": pods, "device": device}
    content["work"] |= {
        "duration": {"steps": steps}, "log_every_steps": 1, "batch": {"micro": 16, "accumulation": ACCUMULATION},
        "learning_rate": {"peak": 0.003, "warmup_samples": 64, "schedule": "constant"},  # of the number of steps else
    }
    if device == "cuda":
        content["work"] |= ON_A_GPU
        content["work"]["checkpoints"]["every_steps"] = 20
    content["lifecycle"] |= {
        "recovery": {"restarts": 10_000, "wait_seconds": 900}, "peer_lost_seconds": SILENT_SECONDS,
        "watchdog": {"training_seconds": HANG_SECONDS, "saving_seconds": HANG_SECONDS},
    }
    return RunSpec.model_validate(content)


@dataclass
class Incident:
    kind: str
    own_seconds: float
    restore_seconds: float
    """Of these."""
    delay_seconds: float
    """Of a Job's controller, for this loss of this index; 0 where no pod was lost."""
    lost_steps: int


@dataclass
class Tally:
    incidents: list[Incident] = field(default_factory=list)
    cold_seconds: float = 0.0
    """From the start of all pods to the first step."""


class Pods:
    """The pods of one run, each of which may have successors."""

    def __init__(self, spec: RunSpec, folder: Path, network: str) -> None:
        self.folder, self._network = folder, network
        self.pods: dict[int, LocalPod] = {}
        self._of_node_0: list[LocalPod] = []
        self._numbers, self._life = count(), ExitStack()
        self._state(spec)

    def _state(self, spec: RunSpec) -> None:
        self.spec, self._path = spec, self.folder / f"run-{next(self._numbers)}.json"
        self._path.write_text(spec.model_dump_json(exclude_none=True))
        self.store = CheckpointStore(spec.state_directory or "")

    def __enter__(self) -> Pods:
        self._start_all()
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.pods:
            for pid in self.processes(node):
                send(pid, signal.SIGKILL)
        self._life.close()

    def start(self, node: int) -> None:
        place = self.folder / f"pod-{node}-{next(self._numbers)}"
        place.mkdir()
        own = {
            NODE_INDEX_ENV: str(node), BIND_ENV: f"{self._network}{node + 1}", MARK_ENV: f"{self.folder}:{node}",
            "OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR",
        }
        self.pods[node] = self._life.enter_context(LocalPod(LocalRun(self.spec, self._path), place, own))
        if node == 0:
            self._of_node_0.append(self.pods[0])

    def _start_all(self) -> None:
        for node in range(self.spec.world.nodes):
            self.start(node)

    def end(self) -> None:
        """Tell all pods to end, which save."""
        for pod in self.pods.values():
            send(pod.pid, signal.SIGTERM)
        if set(codes := self.codes()) != {int(ExitCode.PREEMPTED_SAVED)}:
            raise BrokenPromiseError(f"all pods were told to end, and ended with {codes}")

    def start_again(self, spec: RunSpec) -> None:
        """All pods, with another specification of the same run."""
        self._state(spec)
        self._start_all()

    def codes(self) -> list[int | None]:
        """With which all pods end, however long it takes while steps are done."""
        while not all(pod.code is not None for pod in self.pods.values()):
            steps = len(self.events("step"))

            def goes_on(steps: int = steps) -> bool:
                return all(pod.code is not None for pod in self.pods.values()) or len(self.events("step")) > steps

            _wait(goes_on, "a step, or the end of all pods")
        return [pod.code for pod in self.pods.values()]

    def events(self, name: str) -> list[Event]:
        """Of all pods of node 0 that there were: rank 0 tells of steps, restores and commits."""
        return [event for pod in self._of_node_0 for event in pod.heard(name)]

    def processes(self, node: int) -> list[int]:
        mark = f"{MARK_ENV}={self.folder}:{node}\0".encode()
        return [pid for pid, text in chaos_run._environments() if mark in text + b"\0" and is_running(pid)]

    def ranks(self, node: int) -> list[int]:
        """Those of its present attempt; others may wait for the next one."""
        return [int(pid) for pid in self.pods[node].heard("ranks_started")[-1]["pids"]]

    def set_niceness(self, value: int) -> None:
        """Of all threads of all ranks. Only root can take it back, so for anybody else it stays as it is."""
        if os.geteuid() != 0:
            return
        for pid in (pid for node in self.pods for pid in self.ranks(node)):
            with suppress(OSError):  # it has ended
                for thread in Path(f"/proc/{pid}/task").iterdir():
                    os.setpriority(os.PRIO_PROCESS, int(thread.name), value)

    def committed_step(self) -> int:
        return max((record.step for record in self.store.records()), default=0)


def _wait(reached: Callable[[], bool], what: str, seconds: float = PATIENCE_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not reached():
        if time.monotonic() > deadline:
            raise BrokenPromiseError(f"not within {seconds:g} s: {what}")
        time.sleep(POLL_SECONDS)


def _ready(pod: LocalPod) -> bool:
    """Whether ranks of the next attempt can be forked from what has their libraries imported."""
    return pod.code is not None or bool(pod.heard("template_ready"))


def _when(event: Event) -> float:
    return datetime.fromisoformat(event["ts"]).timestamp()


class Striker:
    """Strikes one run."""

    def __init__(self, run: Pods, dice: random.Random, shorten: float, tally: Tally, say: Callable[[str], None]) -> None:
        self._run, self._dice, self._shorten, self._tally, self._say = run, dice, shorten, tally, say
        self._losses = dict.fromkeys(range(run.spec.world.nodes), 0)

    def strike(self, kinds: list[str]) -> None:
        for number, kind in enumerate(kinds, 1):
            self._wait_for_commits(self._dice.randrange(1, 3))
            time.sleep(self._dice.uniform(0.0, 0.2))
            incident = self._one(kind)
            self._tally.incidents.append(incident)
            rest = f"controller {incident.delay_seconds:g} s, {incident.lost_steps} steps lost"
            own = f"{incident.own_seconds:6.2f} s of our own, {incident.restore_seconds:.2f} of them the restore"
            self._say(f"{number:4} {kind:<28} {own}, {rest}")

    def _wait_for_commits(self, more: int) -> None:
        attempt = self._run.events("run_started")[-1]["attempt"] if self._run.events("run_started") else None

        def committed() -> bool:
            found = [event for event in self._run.events("checkpoint_committed") if attempt in (None, event["attempt"])]
            return len(found) >= more

        self._run.set_niceness(LAST)
        _wait(committed, "commits")
        _wait(lambda: all(_ready(pod) for pod in self._run.pods.values()), "ranks that wait for the next attempt")
        self._run.set_niceness(0)
        if any(pod.code is not None for pod in self._run.pods.values()):
            codes = {node: pod.code for node, pod in self._run.pods.items()}
            raise BrokenPromiseError(f"nobody struck, and the pods ended with {codes}")

    def _one(self, kind: str) -> Incident:
        run, nodes = self._run, self._run.spec.world.nodes
        node = 0 if kind == "pod 0 killed" or nodes == 1 else self._dice.randrange(1 if kind == "pod killed" else 0, nodes)
        attempts = len(run.events("run_started"))
        others = {other: pod.pid for other, pod in run.pods.items() if other != node or kind in KEPT}
        since, intended = time.time(), STRIKES[kind](run, node)
        last = max((event["step"] for event in run.events("step") if _when(event) <= since + intended), default=0)
        waited = 0.0
        if kind not in KEPT:
            waited = self._replace(kind, node)
        _wait(lambda: len(run.events("run_started")) > attempts, f"another attempt after {kind}")
        began = run.events("run_started")[-1]
        _wait(lambda: any(event["attempt"] == began["attempt"] for event in run.events("step")), f"a step after {kind}")
        step = next(event for event in run.events("step") if event["attempt"] == began["attempt"])
        restored = [event for event in run.events("restored") if event["attempt"] == began["attempt"]]
        from_step, restore = (int(restored[0]["step"]), float(restored[0]["seconds"])) if restored else (0, 0.0)
        committed = [event for event in run.events("checkpoint_committed") if event["attempt"] != began["attempt"]]
        newest = max((int(event["step"]) for event in committed), default=0)
        if from_step < newest:
            raise BrokenPromiseError(f"{kind}: the attempt goes on from step {from_step}, and step {newest} was committed")
        for other, pid in others.items():
            if run.pods[other].pid != pid or run.pods[other].code is not None:
                raise BrokenPromiseError(f"{kind} of node {node}: node {other} ended with {run.pods[other].code}")
        own = _when(step) - since - intended - waited
        controller = 0 if kind in KEPT else delay(self._losses[node])
        return Incident(kind, own, restore, controller, max(0, last - from_step))

    def _replace(self, kind: str, node: int) -> float:
        """Start the pod anew when its controller would. Gives the shortened delay."""
        run, pod = self._run, self._run.pods[node]
        _wait(lambda: pod.code is not None, f"the end of node {node}")
        if kind == "SIGTERM to one pod" and pod.code != ExitCode.PREEMPTED_SAVED:
            raise BrokenPromiseError(f"node {node} was told to end, and ended with {pod.code}")
        _wait(lambda: not run.processes(node), f"the processes of node {node} are gone")
        self._losses[node] += 1
        seconds = delay(self._losses[node]) / self._shorten
        time.sleep(seconds)
        run.start(node)
        return seconds


def _kill_rank(run: Pods, node: int) -> float:
    for pid in run.ranks(node):
        send(pid, signal.SIGKILL)
    return 0.0


def _hang(run: Pods, node: int) -> float:
    for pid in run.ranks(node):
        send(pid, signal.SIGSTOP)
    return HANG_SECONDS


def _kill_container(run: Pods, node: int) -> float:
    """As the kernel does on cgroup v2: every process at once."""
    for pid in run.processes(node):
        send(pid, signal.SIGKILL)
    return 0.0


def _kill_supervisor(run: Pods, node: int) -> float:
    send(run.pods[node].pid, signal.SIGKILL)
    return 0.0


def _tell(run: Pods, node: int) -> float:
    send(run.pods[node].pid, signal.SIGTERM)
    return 0.0


def _lose_node(run: Pods, node: int) -> float:
    """It falls silent, and is gone for good once the others have noticed."""
    for pid in run.processes(node):
        send(pid, signal.SIGSTOP)
    time.sleep(SILENT_SECONDS)
    _kill_container(run, node)
    return SILENT_SECONDS


STRIKES: dict[str, Callable[[Pods, int], float]] = {
    "rank killed": _kill_rank,
    "rank hung": _hang,
    "out of memory, container": _kill_container,
    "pod killed": _kill_supervisor,
    "pod 0 killed": _kill_supervisor,
    "SIGTERM to one pod": _tell,
    "node lost": _lose_node,
}
"""Kind -> what does it, and gives the seconds that a limit of the run waits for by intent."""


def measure(engine: str, pods: int, incidents: int, seed: int, shorten: float, folder: Path, kinds: list[str],
            say: Callable[[str], None] = print, device: Device = "cpu") -> Tally:
    """So many incidents, each kind as often as the others. Raises :class:`BrokenPromiseError`."""
    tally, memory, network = Tally(), SharedMemory(), own_network()
    spec = specification(engine, pods, ENDLESS, _made(folder / "struck"), network, device)
    dice = random.Random(f"{engine} {pods} {seed}")
    turns = [kinds[index % len(kinds)] for index in range(incidents)]
    dice.shuffle(turns)
    since = time.time()
    with Pods(spec, folder / "struck", network) as run:
        _wait(lambda: bool(run.events("step")), "the first step")
        tally.cold_seconds = _when(run.events("step")[0]) - since
        say(f"cold start {tally.cold_seconds:.2f} s")
        Striker(run, dice, shorten, tally, say).strike(turns)
        run.end()
        last = run.committed_step() + LAST_STEPS
        run.start_again(spec.model_copy(update={"work": spec.work.model_copy(update={"duration": Duration(steps=last)})}))
        found = _final(run, last)
    if found != _undisturbed(engine, pods, last, _made(folder / "undisturbed"), device):
        raise BrokenPromiseError("the final state differs from that of an undisturbed run")
    if segments := memory.clear():
        raise BrokenPromiseError(f"segments of shared memory are left: {segments}")
    return tally


def judge(tally: Tally, most_seconds: float) -> None:
    """What incidents of ranks may cost, less the restore. Raises :class:`BrokenPromiseError`."""
    kept = [incident for incident in tally.incidents if incident.kind in KEPT]
    most = min(most_seconds, tally.cold_seconds / 2)
    if kept and (typical := _less_restore(kept)) > most:
        raise BrokenPromiseError(f"an incident of a rank costs {typical:.2f} s, less the restore, and {most:.2f} s are promised")
    for kind in KEPT:
        same = [incident for incident in kept if incident.kind == kind]
        first, last = same[:COMPARED], same[-COMPARED:]
        if len(same) >= 2 * COMPARED and _less_restore(last) > 2 * _less_restore(first):
            costs = f"{_less_restore(last):.2f} s, and the first {_less_restore(first):.2f} s"
            raise BrokenPromiseError(f"{kind}: the last {COMPARED} incidents cost {costs}")


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def _undisturbed(engine: str, pods: int, steps: int, folder: Path, device: Device) -> dict[str, tuple[str, ...]]:
    network = own_network()
    with Pods(specification(engine, pods, steps, folder, network, device), folder, network) as run:
        return _final(run, steps)


def _final(run: Pods, step: int) -> dict[str, tuple[str, ...]]:
    """File -> digests of the last step's checkpoint, which verifies; nothing of the run is left."""
    if set(codes := run.codes()) != {0}:
        raise BrokenPromiseError(f"the pods ended with {codes}")
    if left := [pid for node in run.pods for pid in run.processes(node)]:
        raise BrokenPromiseError(f"processes are left: {left}")
    record = run.store.records()[0]
    if record.step != step:
        raise BrokenPromiseError(f"the run ended at step {record.step} of {step}")
    if problems := run.store.verify(record):
        raise BrokenPromiseError(problems[0].message)
    return {file.name: file.chunks for file in record.files}


def _print(name: str, tally: Tally) -> None:
    print(f"\n{name}: {len(tally.incidents)} incidents, cold start {tally.cold_seconds:.2f} s, final state as undisturbed")
    for kind in STRIKES:
        found = [incident for incident in tally.incidents if incident.kind == kind]
        if found:
            own = [incident.own_seconds for incident in found]
            lost = max(incident.lost_steps for incident in found)
            print(f"  {kind:<28} {len(found):3}x  own median {median(own):.2f} s, less the restore {_less_restore(found):.2f}, "
                  f"first {own[0]:.2f}, last {own[-1]:.2f}; at most {lost} steps lost")
    if kept := [incident for incident in tally.incidents if incident.kind in KEPT]:
        print(f"  of ranks alone {len(kept):3}x  median less the restore {_less_restore(kept):.2f} s")


def _less_restore(incidents: list[Incident]) -> float:
    return median(incident.own_seconds - incident.restore_seconds for incident in incidents)


def main(arguments: argparse.Namespace) -> int:
    machine = Machine.describe(("torch",))
    print(machine, flush=True)
    folder = Path(tempfile.mkdtemp(prefix="trainwright-recovery-", dir=arguments.directory))
    tallies: dict[str, Tally] = {}
    for engine in arguments.engine or ["ddp"]:
        for pods in arguments.pods or [1 if arguments.device == "cuda" else 2]:
            name = f"{engine}, {pods} pods"
            print(name, flush=True)
            try:
                tallies[name] = measure(
                    engine, pods, arguments.incidents, arguments.seed, arguments.shorten, folder / f"{engine}-{pods}",
                    arguments.kind or list(STRIKES), lambda line: print(line, flush=True), arguments.device,
                )
                _print(name, tallies[name])
                judge(tallies[name], QUIET_SECONDS if arguments.quiet else math.inf)
            except BrokenPromiseError as broken:
                print(f"{name}, seed {arguments.seed}: {broken}\nsee {folder}")
                return 1
    shutil.rmtree(folder)
    if arguments.json:
        figures = {name: asdict(tally) for name, tally in tallies.items()}
        content = {"machine": asdict(machine), "seed": arguments.seed, "shorten": arguments.shorten, "runs": figures}
        arguments.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--incidents", type=int, default=100, help="of each engine and size")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engine", action="append", choices=ENGINES, help="may be given several times; default: ddp")
    parser.add_argument("--pods", action="append", type=int, help="may be given several times; default: 2, on a GPU 1")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="cuda: one GPU, and one pod")
    parser.add_argument("--kind", action="append", choices=STRIKES, help="may be given several times; default: every kind")
    parser.add_argument("--quiet", action="store_true", help="nothing else runs here: hold incidents of ranks to 3 s, too")
    parser.add_argument("--shorten", type=float, default=100, help="the controller's delays are divided by it")
    parser.add_argument("--directory", type=Path, help="where the runs are; the system's temporary folder by default")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    sys.exit(main(parser.parse_args()))
