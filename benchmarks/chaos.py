"""Disturb a run of two pods again and again, and hold it to what the trainer promises.

    .venv/bin/python -m benchmarks.chaos --faults 200 --seed 1 --engine ddp [--engine fsdp2] [--mode in-place] [--json FILE]
    .venv-engines/deepspeed/bin/python -m benchmarks.chaos --engine deepspeed ...    # after make engines ENGINES=deepspeed

From the root of the repository, on Linux. Faults come in turns at random moments of training, in the middle of saves, and while
an attempt starts: SIGKILL of a rank, a supervisor, a pod; SIGSTOP; storms of SIGTERM; a disk that is full for a moment; torn,
swapped and stale files of the newest commit; strangers on the control port; a pod that is frozen for less and for more than the
limit. Pods that have ended are started again, as a Job does: all together, or where the run recovers in place each by itself.
Both modes are struck, or one (``--mode``). What must hold:

- nothing that was committed is lost: an attempt goes on from the newest commit that nobody damaged, and every commit verifies;
- the final weights, optimizer and random states are byte for byte those of a run that nobody disturbed;
- where a pod ends, every process of every pod is gone 5 seconds after the limit for a silent peer (of a frozen one: after its
  thaw); where nothing is wrong with a pod, none ends;
- in place no pod ends but those that are killed or told to end, and the others wait for these;
- in the end no process is left, and no segment of shared memory.

The first promise that is broken ends the program with 1, and leaves logs and checkpoints in the directory.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from itertools import count, product
from pathlib import Path

from benchmarks.chaos_faults import FAULTS, LEAVE_SECONDS, Struck
from benchmarks.chaos_run import MODES, PATIENCE_SECONDS, POLL_SECONDS, STEPS, BrokenPromiseError, ChaosRun, Mode
from benchmarks.machine import Machine

from trainwright_trainer.checkpoint.volume import CheckpointName
from trainwright_trainer.supervisor.pod.shared_memory import SharedMemory

ENGINES = ("ddp", "fsdp2", "deepspeed")
PACKAGES = ("torch", "xxhash")
SHARE_IN_SAVES = 0.3
"""Of the faults that wait for a save to be under way."""
SHARE_WHILE_RESTORING = 0.2
"""Of the attempts that are struck before they train."""


@dataclass
class Tally:
    """What has happened so far."""

    faults: Counter[str] = field(default_factory=Counter)
    attempts: int = 0
    runs: int = 0
    """That reached their last step, and were compared."""
    codes: Counter[int] = field(default_factory=Counter)
    """Exit codes of pods; negative for a signal."""
    slowest_seconds: float = 0.0
    """Until every pod was gone, of those that were to go."""


class Chaos:
    """Strikes one engine's runs. ``say`` hears a line for each fault."""

    def __init__(
        self, engine: str, seed: int, folder: Path, say: Callable[[str], None] = print, mode: Mode = "whole-job"
    ) -> None:
        self._engine, self._folder, self._say, self._mode = engine, folder, say, mode
        self._dice = random.Random(f"{engine} {seed}")
        self._numbers = count()
        self.tally = Tally()

    def strike(self, faults: int, names: tuple[str, ...] = tuple(FAULTS)) -> Tally:
        """So many faults, each kind as often as the others. Raises :class:`BrokenPromiseError`."""
        memory = SharedMemory()
        expected, lineage = self._undisturbed(), _InPlace if self._mode == "in-place" else _Lineage
        turns = [names[index % len(names)] for index in range(faults)]
        self._dice.shuffle(turns)
        while turns:
            with ChaosRun(self._engine, self._folder / f"run-{next(self._numbers)}", self._mode) as run:
                try:
                    lineage(run, self._dice, self.tally, self._say).disturb(turns)
                    if (found := _final(run)) != expected:
                        differing = ", ".join(_differing(found, expected))
                        raise BrokenPromiseError(f"the final state differs from that of an undisturbed run in {differing}")
                except BrokenPromiseError as broken:
                    raise BrokenPromiseError(f"{broken}\n{run.words()}") from None
            self.tally.runs += 1
            self._say(f"{self._engine}: step {STEPS} reached, with the bytes of the undisturbed run")
            shutil.rmtree(run.folder)
        if segments := memory.clear():
            raise BrokenPromiseError(f"segments of shared memory are left: {segments}")
        return self.tally

    def _undisturbed(self) -> dict[str, tuple[str, ...]]:
        with ChaosRun(self._engine, self._folder / "undisturbed", self._mode) as run:
            run.start()
            for pod in run.pods:
                pod.succeed()
            return _final(run)


class _Lineage:
    """One run with its faults."""

    def __init__(self, run: ChaosRun, dice: random.Random, tally: Tally, say: Callable[[str], None]) -> None:
        self._run, self._dice, self._tally, self._say = run, dice, tally, say
        self._safe_steps = {0}
        """Of the commits that nobody damaged, when the last attempt ended; 0 where it begins anew."""
        self._damaged: set[CheckpointName] = set()
        """Commits that faults have damaged. One stays until an attempt tries to load it; another fault may come before that."""

    def disturb(self, turns: list[str]) -> None:
        """Take faults from the end of ``turns`` until they or the run's steps are over, and let it reach its last step."""
        self._start(_nothing)
        while not self._finished():
            if turns and self._reach_a_moment():
                name = turns.pop()
                newest = self._run.committed_step
                struck = FAULTS[name](self._run, self._dice)
                self._tally.faults[name] += 1
                self._follow(name, struck, newest)
            else:
                self._wait(self._all_ended, "the last step")
                self._check_what_it_went_on_from()
                self._check_commits(None)
                self._expect_the_end()

    def _start(self, meanwhile: Callable[[], None]) -> None:
        """An attempt, until its ranks have what they go on from, or now and then only until they have been started."""
        run, early = self._run, self._dice.random() < SHARE_WHILE_RESTORING
        run.start(meanwhile)
        self._tally.attempts += 1
        self._wait(lambda: self._over() or run.heard("started" if early else "run_started"), "training")
        if self._over():
            self._wait(self._all_ended, "the end of all pods")
            self._expect_the_end()
        if early:
            time.sleep(self._dice.uniform(0.0, 5.0))

    def _check_what_it_went_on_from(self) -> None:
        run, safe_step = self._run, max(self._safe_steps)
        if run.heard("run_started") and run.restored_step != safe_step:
            raise BrokenPromiseError(f"an attempt went on from step {run.restored_step} instead of {safe_step}")

    def _expect_the_end(self) -> None:
        if not self._finished():
            raise BrokenPromiseError(f"an attempt that nobody disturbed ended with {self._run.codes()}")

    def _reach_a_moment(self) -> bool:
        """Wait for one at which the next fault may come. False where the run was over before."""
        run, wanted = self._run, len(self._run.told_steps) + self._dice.randrange(1, 6)
        if not run.heard("run_started"):
            return not self._over()
        self._wait(lambda: self._over() or len(run.told_steps) >= wanted, "commits")
        if self._dice.random() < SHARE_IN_SAVES:
            self._wait(lambda: self._over() or run.saves, "a save")
        time.sleep(self._dice.uniform(0.0, 0.05))
        return not self._over()

    def _follow(self, name: str, struck: Struck, newest: int) -> None:
        """Hold the run to what is asked of it."""
        run = self._run
        if struck.demand != "ends":
            before = max(newest, run.committed_step)
            self._wait(lambda: self._over() or run.committed_step > before, "a commit after the fault")
        if not self._over() and struck.demand != "ends":
            self._tell(name, struck, "goes on")
            return
        since = struck.since if struck.demand == "ends" else time.monotonic()
        self._wait_for_end(name, struck, since)
        seconds = time.monotonic() - since
        self._tally.slowest_seconds = max(self._tally.slowest_seconds, seconds)
        self._tell(name, struck, f"all gone after {seconds:.1f} s with {run.codes()}")
        if struck.demand == "goes on" and not self._finished():
            raise BrokenPromiseError(f"{name} ({struck.detail}) ended the run, with {run.codes()}")
        self._tally.codes.update(pod.wait() for pod in run.pods)
        self._check_what_it_went_on_from()
        self._check_commits(struck.lost_step)
        if not self._finished():
            self._start(struck.meanwhile)

    def _wait_for_end(self, name: str, struck: Struck, since: float) -> None:
        limit = LEAVE_SECONDS + (0 if struck.has_thawed else self._run.spec.lifecycle.peer_lost_seconds)
        while left := self._run.everybody():
            if time.monotonic() - since > limit:
                raise BrokenPromiseError(f"{name} ({struck.detail}): {len(left)} processes are still there after {limit:g} s")
            time.sleep(POLL_SECONDS)
        for pod in self._run.pods:
            pod.wait()

    def _tell(self, name: str, struck: Struck, outcome: str) -> None:
        number = sum(self._tally.faults.values())
        self._say(f"{number:4} {name:<30} {outcome}; step {self._run.committed_step}; {struck.detail}")

    def _check_commits(self, lost_step: int | None) -> None:
        run = self._run
        self._damaged |= {record.name for record in run.records() if record.step == lost_step}
        records = [record for record in run.records() if record.name not in self._damaged]
        newest = max((record.step for record in records), default=0)
        promised = max({*self._safe_steps, *run.told_steps} - {lost_step})
        if newest < promised:
            raise BrokenPromiseError(f"step {promised} was committed, and the newest commit is of step {newest}")
        for record in records:
            if problems := run.store.verify(record):
                raise BrokenPromiseError(f"step {record.step} was committed, and {problems[0].message}")
        self._safe_steps = {0, *(record.step for record in records)}

    def _over(self) -> bool:
        return any(code is not None for code in self._run.codes())

    def _finished(self) -> bool:
        return bool(self._run.pods) and all(code == 0 for code in self._run.codes())

    def _all_ended(self) -> bool:
        return None not in self._run.codes() and not self._run.everybody()

    @staticmethod
    def _wait(reached: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not reached():
            if time.monotonic() > deadline:
                raise BrokenPromiseError(f"not within {PATIENCE_SECONDS:g} s: {what}")
            time.sleep(POLL_SECONDS)


class _InPlace(_Lineage):
    """One run whose attempts come and go in pods that stay."""

    def __init__(self, run: ChaosRun, dice: random.Random, tally: Tally, say: Callable[[str], None]) -> None:
        super().__init__(run, dice, tally, say)
        self._told = {0}
        """Steps of commits that rank 0 has told of, and that nobody damaged."""
        self._read = self._begun = self._restored = 0
        """Events that were looked at, attempts before the fault, and the step that the newest one went on from."""
        self._early = False

    def _start(self, meanwhile: Callable[[], None]) -> None:
        super()._start(meanwhile)
        self._tally.attempts -= 1  # all are counted where they are looked at

    def _reach_a_moment(self) -> bool:
        early, self._early = self._early, False
        if early:
            time.sleep(self._dice.uniform(0.0, 5.0))
        reached = not self._over() if early else super()._reach_a_moment()
        self._begun = len(self._attempts())
        return reached

    def _follow(self, name: str, struck: Struck, newest: int) -> None:
        run, since = self._run, time.monotonic()
        kept = [pod for node, pod in enumerate(run.pods) if node not in struck.pods]
        for node in struck.pods:
            self._wait(lambda pod=run.pods[node]: pod.code is not None, f"the end of node {node}")  # type: ignore[misc]
            self._tally.codes[run.pods[node].wait()] += 1
        if not kept:
            self._wait(self._all_ended, "the end of all pods")
            self._check_what_it_went_on_from()
            self._check_commits(struck.lost_step)
            self._told.discard(struck.lost_step or -1)
            self._tell(name, struck, "all pods start again")
            return self._start(struck.meanwhile)
        for node in struck.pods:
            run.replace(node)
        if struck.demand == "ends":
            self._wait(lambda: self._over() or self._began_again(), f"another attempt after {name} ({struck.detail})")
            self._early = self._dice.random() < SHARE_WHILE_RESTORING
        if not self._early:
            before = max(newest, run.committed_step)
            self._wait(lambda: self._over() or run.committed_step > before, f"a commit after {name} ({struck.detail})")
        if self._over():
            self._wait(self._all_ended, "the end of all pods")
        if not self._finished() and any(pod.code is not None for pod in kept):
            raise BrokenPromiseError(f"{name} ({struck.detail}) ended other pods, with {run.codes()}")
        if not self._finished() and struck.demand == "goes on" and len(self._attempts()) > self._begun:
            raise BrokenPromiseError(f"{name} ({struck.detail}) ended the attempt")
        self._check_what_it_went_on_from()
        self._tell(name, struck, f"{'starts' if self._early else 'commits'} again after {time.monotonic() - since:.1f} s")

    def _attempts(self) -> list[str]:
        return [event["attempt"] for event in self._run.of_node_0() if event["event"] == "started"]

    def _began_again(self) -> bool:
        """Whether every pod has started ranks since the fault."""
        attempts = self._attempts()
        newest = attempts[-1] if len(attempts) > self._begun else None
        return all(newest in [event.get("attempt") for event in pod.heard("ranks_started")] for pod in self._run.pods)

    def _check_what_it_went_on_from(self) -> None:
        """Each attempt, by what rank 0 has told in order."""
        events = self._run.of_node_0()
        for event in events[self._read:]:
            match event["event"]:
                case "started":
                    self._tally.attempts, self._restored = self._tally.attempts + 1, 0
                case "restored":
                    self._restored = int(event["step"])
                case "run_started" if self._restored < max(self._told):
                    raise BrokenPromiseError(f"an attempt went on from step {self._restored} instead of {max(self._told)}")
                case "checkpoint_committed":
                    self._told.add(int(event["step"]))
        self._read = len(events)


def _final(run: ChaosRun) -> dict[str, tuple[str, ...]]:
    """File -> digests of the last step's checkpoint, which verifies."""
    record = run.records()[0]
    if record.step != STEPS:
        raise BrokenPromiseError(f"the run ended at step {record.step} of {STEPS}")
    if problems := run.store.verify(record):
        raise BrokenPromiseError(problems[0].message)
    return {file.name: file.chunks for file in record.files}


def _differing(found: dict[str, tuple[str, ...]], expected: dict[str, tuple[str, ...]]) -> list[str]:
    return sorted(name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name))


def _nothing() -> None:
    pass


def main(arguments: argparse.Namespace) -> int:
    machine = Machine.describe(PACKAGES)
    print(machine, flush=True)
    folder = Path(tempfile.mkdtemp(prefix="trainwright-chaos-", dir=arguments.directory))
    tallies: dict[str, Tally] = {}
    started = time.monotonic()
    for engine, mode in product(arguments.engine or ["ddp"], arguments.mode or MODES):
        name = f"{engine}, {mode}"
        print(name, flush=True)
        chaos = Chaos(engine, arguments.seed, folder / engine / mode, lambda line: print(line, flush=True), mode)
        tallies[name] = chaos.tally
        try:
            chaos.strike(arguments.faults, tuple(arguments.kind or FAULTS))
        except BrokenPromiseError as broken:
            print(f"{name}, seed {arguments.seed}, fault {sum(chaos.tally.faults.values())}: {broken}\nsee {folder}")
            return 1
        _print(name, chaos.tally)
    shutil.rmtree(folder)
    print(f"{time.monotonic() - started:.0f} s")
    if arguments.json:
        runs = {name: vars(tally) for name, tally in tallies.items()}
        figures = {"machine": asdict(machine), "seed": arguments.seed, "runs": runs}
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return 0


def _print(name: str, tally: Tally) -> None:
    faults = sum(tally.faults.values())
    print(f"\n{name}: {faults} faults, {tally.attempts} attempts, {tally.runs} runs with the bytes of an undisturbed one")
    if tally.slowest_seconds:
        print(f"  all pods gone after at most {tally.slowest_seconds:.1f} s")
    print(f"  exit codes of pods: {', '.join(f'{code} {number}x' for code, number in sorted(tally.codes.items()))}")
    for fault, number in sorted(tally.faults.items()):
        print(f"  {number:4} {fault}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=200, help="of each engine and mode")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engine", action="append", choices=ENGINES, help="may be given several times; default: ddp")
    parser.add_argument("--mode", action="append", choices=MODES, help="may be given several times; default: both")
    parser.add_argument("--kind", action="append", choices=FAULTS, help="may be given several times; default: every kind")
    parser.add_argument("--directory", type=Path, help="where the runs are; the system's temporary folder by default")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    sys.exit(main(parser.parse_args()))
