"""How far a run is, as its pods tell it: by what their supervisors serve at ``/metrics``, and by the trainer's log lines.

Both come from the manifests alone: the port is the specification's, and the lines are what the containers print.
"""

from __future__ import annotations

import asyncio
import http.client
import re
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from trainwright.rehearsal.observer import Event
from trainwright.rehearsal.stated.pod import Pod

Connect = Callable[[], socket.socket]
POLL_SECONDS, ANSWER_SECONDS = 0.1, 2.0
UNDER_WAY_SECONDS = 2.0
"""A step that is done so soon after a fault may have been under way."""
_SAMPLE = re.compile(rb"^trainwright_(step|step_seconds|committed_step|loss|attempt)(?:\{[^}]*\})? (\S+)$", re.MULTILINE)


class Moment(NamedTuple):
    """One thing that was seen of the training."""

    at: float
    """Seconds, on the clock of :func:`time.monotonic`."""
    what: Literal["began", "step", "committed"]
    step: int
    """The last that was done: of an attempt that begins, the one it goes on from."""
    loss: float | None = None


@dataclass(slots=True)
class Progress:
    """Everything that was seen, in order."""

    moments: list[Moment] = field(default_factory=list)
    losses: dict[int, float] = field(default_factory=dict)
    """Of each step that was seen with its loss; of one that was done again, the later."""
    total: int | None = None
    """Steps that the run is to do."""
    _logged: bool = False
    _attempt: float = 0.0

    def take(self, event: Event) -> None:
        """What a line of a pod's log says. Where there are such lines, they are more exact than what is polled."""
        step, loss = event.number("step"), event.number("loss")
        match event.name:
            case "run_started" if step is not None:
                self._logged = True
                samples, batch = event.number("target_samples"), event.number("global_batch")
                self.total = int(-(-samples // batch)) if samples and batch else self.total
                self._add("began", step)
            case "step" if step is not None:
                self._logged = True
                self._add("step", step, loss)
            case "checkpoint_committed" if step is not None:
                self._add("committed", step)

    def scraped(self, values: Mapping[str, float]) -> None:
        """What a pod serves."""
        step, attempt = values.get("step"), values.get("attempt", 0.0)
        committed = values.get("committed_step")
        if committed is not None and committed > (self.committed(time.monotonic()) or -1):
            self._add("committed", committed)
        if self._logged or step is None:
            return
        last = self.step
        if attempt > self._attempt > 0 or (last is not None and step < last):
            self._add("began", committed or 0)
        self._attempt = max(attempt, self._attempt)
        if step != last:
            self._add("step", step, values.get("loss"))

    def _add(self, what: Literal["began", "step", "committed"], step: float, loss: float | None = None) -> None:
        self.moments.append(Moment(time.monotonic(), what, int(step), loss))
        if what == "step" and loss is not None:
            self.losses[int(step)] = loss

    @property
    def step(self) -> int | None:
        """The latest that was seen, of the attempt that runs."""
        return next((one.step for one in reversed(self.moments) if one.what == "step"), None)

    def committed(self, until: float) -> int | None:
        return max((one.step for one in self.moments if one.what == "committed" and one.at <= until), default=None)

    def before(self, at: float) -> int | None:
        """The furthest step that was done by then."""
        return max((one.step for one in self.moments if one.what == "step" and one.at <= at), default=None)

    def recovery(self, at: float) -> tuple[int, Moment] | None:
        """The step that the run went on from after that moment, and the first that was done then; None where none was yet.

        A run that no attempt begins again in has gone on by itself: steps that were under way do not show that.
        """
        began: Moment | None = None
        for one in self.moments:
            if one.at <= at or one.what == "committed":
                continue
            if one.what == "began":
                began = one
            elif began is not None:
                return began.step, one
            elif one.at > at + UNDER_WAY_SECONDS:
                return one.step - 1, one
        return None


async def follow(
    progress: Progress, served: Callable[[], Iterable[tuple[Pod, Connect]]], tell: Callable[[Pod, Mapping[str, float]], None]
) -> None:
    """Scrape the pods that run until this is cancelled, as Prometheus does, only more often, and tell what each serves."""
    while True:
        asked = list(served())
        found = await asyncio.gather(*(asyncio.to_thread(_scrape, connect) for _, connect in asked))
        for (pod, _), values in zip(asked, found, strict=True):
            progress.scraped(values)
            tell(pod, values)
        await asyncio.sleep(POLL_SECONDS)


def _scrape(connect: Connect) -> dict[str, float]:
    return dict(_samples(answer_of(connect, "/metrics")))


def answer_of(connect: Connect, path: str) -> bytes:
    """What a pod answers to a GET; empty where none does."""
    connection = http.client.HTTPConnection("pod")
    try:
        connection.sock = connect()
        connection.request("GET", path)
        return connection.getresponse().read()
    except (OSError, http.client.HTTPException):
        return b""
    finally:
        connection.close()


def _samples(text: bytes) -> Iterator[tuple[str, float]]:
    for name, value in _SAMPLE.findall(text):
        try:
            yield name.decode(), float(value)
        except ValueError:
            continue
