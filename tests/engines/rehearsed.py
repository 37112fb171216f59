"""Runs of dist/ and of other files, rehearsed by the project's command line with the programs of the environment of a test."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import threading
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import TypeVar

from prometheus_client.parser import text_string_to_metric_families
from tests.engines.processes import BIN, ROOT
from tests.processes import PATIENCE_SECONDS
from tests.served import served_by

from trainwright_trainer.checkpoint.ledger import Ledger
from trainwright_trainer.contract import RunSpec, Training
from trainwright_trainer.contract.layout import COMPLETE_MARKER

PROJECT = Path(os.environ.get("TRAINWRIGHT_BIN", ROOT / ".venv" / "bin"))
"""Programs of the environment with the compiler; an engine's own has none."""
SCRAPE_SECONDS = 0.1
"""A rank takes longer to end than that."""
STEPS = 3
STEP = re.compile(r'"event": "step".*?"loss": "?(?P<json>[^",]+)|  step  step \d+ .*?  loss (?P<plain>\S+)')
"""A step that was logged: for machines, or under mpirun, which gives its ranks a terminal, for people."""
SAMPLE = re.compile(r"^\w+", re.MULTILINE)
"""A metric in a line of what is served."""
E = TypeVar("E")
SMALLER = """
import sys
from pathlib import Path
from trainwright.rehearsal.console import foundation_of
from trainwright.rehearsal.scale import scale_down
from trainwright.rehearsal.stated.objects import find_objects, objects_in
from trainwright.rehearsal.setting import Options
path = Path(sys.argv[1])
print(scale_down(find_objects(objects_in(path), foundation_of(path)), Options()).specification.spec.model_dump_json())
"""


class Rehearsal:
    """One run: ``CLUSTER/NAMESPACE/runs/NAME`` below dist/, or a file of its own, in a folder.

    Args:
        run: What is rehearsed.
        folder: For volumes, logs, and what stands for folders of the image or for data.
        image: Virtual environment that stands for the image.
    """

    def __init__(self, run: str | Path, folder: Path, image: Path = BIN.parent) -> None:
        self.file = run if isinstance(run, Path) else ROOT / "dist" / f"{run}.k8s.yaml"
        self.workspace, self._image = folder / "w", image
        self._folder, self._mounts = folder, dict[str, Path]()
        self.output = ""
        self.scraped = set[str]()
        self._addresses: list[str] = []
        self._port = next(iter(re.findall(r'http_port\\?": (\d+)', self.file.read_text())), None)

    def at(self, path: str) -> Path:
        """What stands for a folder of the pods, which is yet to be made."""
        return self.mount(path, self._folder / path[1:])

    def mount(self, path: str, folder: Path) -> Path:
        self._mounts[path] = folder
        return folder

    def events(self, kind: type[E]) -> list[E]:
        """Of the ledger beside the checkpoints, in order; none before there is one."""
        ledgers = (Ledger(path.parent) for path in self.workspace.rglob("attempts.jsonl"))
        return [event for ledger in ledgers for event in ledger.events() if isinstance(event, kind)]

    @property
    def work(self) -> Training:
        """What our trainer is asked to do here."""
        text = subprocess.run([PROJECT / "python", "-c", SMALLER, self.file], check=True, stdout=subprocess.PIPE).stdout
        work = RunSpec.model_validate_json(text).work
        assert isinstance(work, Training)
        return work

    def play(self, *options: str) -> None:
        """Until the run is complete. Where our trainer trains, every step has a finite loss.

        What the pods serve is what dashboards and alerts ask for.
        """
        code = self.follow(*options)
        assert code == 0, f"{self.output}\n{self.logs}"
        if specs := list(self._folder.glob("w/pods/*/files/*/*/run.json")):
            spec = RunSpec.model_validate(json.loads(specs[0].read_text()))
            self._assert_trained(spec)
            assert self.scraped == served_by(spec), f"{sorted(self.scraped ^ served_by(spec))}\n{self.logs}"

    def follow(self, *options: str, meanwhile: Callable[[], object] = bool) -> int:
        """Until it ends; returns its exit code.

        Args:
            meanwhile: Done while it runs, which ends with it.
        """
        process, over = self._start(*options), threading.Event()
        threads = [threading.Thread(target=self._scrape, args=(over,)), threading.Thread(target=self._read, args=(process,))]
        for thread in threads:
            thread.start()
        try:
            meanwhile()
            return process.wait(PATIENCE_SECONDS)
        finally:
            process.terminate()  # it is there yet if what was done meanwhile has failed
            over.set()
            for thread in threads:
                thread.join()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self.output += line
            self._addresses += re.findall(r"^pod \S+ runs at (\S+)$", line)

    def _start(self, *options: str) -> subprocess.Popen[str]:
        mounts = [f"--mount={path}={folder}" for path, folder in self._mounts.items()]
        words = [
            PROJECT / "trainwright", "rehearse", self.file, f"--workspace={self.workspace}", f"--python={self._image}",
            f"--steps={STEPS}", f"--timeout={PATIENCE_SECONDS - 20:g}", "--network=loopback", *mounts, *options,
        ]  # fmt: skip
        return subprocess.Popen(
            [*map(str, words)], cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
        )

    def _assert_trained(self, spec: RunSpec) -> None:
        markers = [json.loads(one.read_text()) for one in (self._folder / "w" / "claims").rglob(COMPLETE_MARKER)]
        assert [one["identity"] for one in markers] == [spec.identity], self.logs
        if isinstance(spec.work, Training):
            losses = [float(found["json"] or found["plain"]) for found in STEP.finditer(self.logs)]
            assert len(losses) >= (spec.work.duration.steps or 1), self.logs
            assert all(map(math.isfinite, losses)), self.logs

    def _scrape(self, over: threading.Event) -> None:
        """Ask all pods for their metrics again and again, as Prometheus does, only more often: of pods on loopback addresses."""
        seen = set[str]()
        while self._port and not over.wait(SCRAPE_SECONDS):  # a command of somebody's own serves none
            for address in list(self._addresses):
                page = f"http://{address}:{self._port}/metrics"
                with suppress(OSError, HTTPException), urllib.request.urlopen(page, timeout=10) as answer:
                    text = answer.read().decode()
                    if (names := set(SAMPLE.findall(text))) - seen:  # to read all of it takes processors from the pods
                        seen |= names
                        self.scraped |= {family.name for family in text_string_to_metric_families(text) if family.samples}

    @property
    def logs(self) -> str:
        found = sorted(self._folder.glob("w/pods/*/*.log"))
        return "\n".join(f"--- {log.parent.name}\n{log.read_text(errors='replace')}" for log in found)
