"""The controller of a run: starts its pods, replaces those that fail, and ends the run, as its operator's folder says."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from trainwright.operators.ending import Controller, Decision, IndexDone, IndexFailed, JobEnd, PodEnd, Question, Replace, Restart
from trainwright.rehearsal.observer import Observer
from trainwright.rehearsal.processes.kubelet import PodRun
from trainwright.rehearsal.stated.objects import Slot

ENDLESS = 5
"""So many pods that end one after the other before they are ready show that the next one will not be, where none waits."""


@dataclass(frozen=True, slots=True)
class StopRequest:
    """Why a rehearsal is to end before its run does."""

    reason: str
    """One CamelCase word: ``Signal``, ``PodNeverReady``, ``Timeout``."""
    message: str


class StopRequests:
    """The first request asks all pods to end; a second one kills them."""

    def __init__(self) -> None:
        self.first: asyncio.Future[StopRequest] = asyncio.get_running_loop().create_future()
        self.second = asyncio.Event()

    def add(self, request: StopRequest) -> None:
        if self.first.done():
            self.second.set()
        else:
            self.first.set_result(request)


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended, or why it was stopped."""

    end: JobEnd | None
    """None where it was stopped before."""
    pods: tuple[PodEnd, ...]
    """In the order in which they ended."""
    stopped: StopRequest | None = None


class RunController:
    """Runs one run once.

    Args:
        controller: What decides.
        create: Makes the next pod of a slot.
        ask: Puts a controller's question to a pod; returns what that answers.
        pace: How long it waits here, of what it waits in the cluster.
    """

    def __init__(
        self, slots: Iterable[Slot], controller: Controller, create: Callable[[Slot], PodRun], observer: Observer,
        stops: StopRequests, pace: float, ask: Callable[[PodRun, Question], str],
    ) -> None:
        self._slots, self._controller, self._create, self._ask = tuple(slots), controller, create, ask
        self._observer, self._stops, self._pace = observer, stops, pace
        self.on_decision: Callable[[PodEnd, Decision, float], None] = lambda *_: None
        self._later = deque(slot for slot in self._slots if slot.later)
        self._tasks: dict[asyncio.Task[PodEnd], Slot] = {}
        self._runs: dict[int, PodRun] = {}
        self._ends: list[PodEnd] = []
        self._ready, self._done = set[int](), set[int]()
        self._never_ready = Counter[int]()
        self._changed = asyncio.Event()
        self._restarts, self._over = 0, asyncio.get_running_loop().create_future()

    async def run(self) -> RunResult:
        """Run the pods until the run is over, or until it is told to stop. No process is ever left."""
        deadline = self._controller.deadline_seconds
        loop = asyncio.get_running_loop()
        over_at = None if deadline is None else loop.time() + deadline
        try:
            for slot in self._slots:
                if not slot.later:
                    self._start(slot, 0.0)
            while self._tasks:
                left = None if over_at is None else max(0.0, over_at - loop.time())
                awaited: set[asyncio.Future[Any]] = {*self._tasks, self._stops.first, self._over}
                done, _ = await asyncio.wait(awaited, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                if not done:
                    return await self._finish(
                        JobEnd("Failed", "DeadlineExceeded", "Job was active longer than specified deadline")
                    )
                if self._stops.first.done():
                    return await self._stopped(self._stops.first.result())
                if self._over.done():
                    return await self._finish(self._over.result())
                for task in [task for task in self._tasks if task in done]:
                    if task in self._tasks and (end := await self._take(task)):
                        return await self._finish(end)
            return RunResult(None, tuple(self._ends), StopRequest("NothingRuns", "no pod is left, and the run is not over"))
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def running(self) -> Mapping[int, PodRun]:
        """Number of its slot -> each pod that runs, or that its node took along."""
        return self._runs

    def note_ready(self, slot: Slot) -> None:
        """All containers of its pod are ready."""
        self._ready.add(slot.number)
        self._note_change()

    def note_restart(self) -> None:
        """The kubelet starts a container again."""
        self._restarts += 1
        end = self._controller.restarted(self._restarts)
        if end is not None and not self._over.done():
            self._over.set_result(end)

    def _note_change(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _start(self, slot: Slot, delay_seconds: float) -> None:
        self._tasks[asyncio.create_task(self._lifetime(slot, delay_seconds))] = slot

    async def _lifetime(self, slot: Slot, delay_seconds: float) -> PodEnd:
        await asyncio.sleep(delay_seconds)
        while not self._may_start(slot):
            await self._changed.wait()
        run = self._runs[slot.number] = self._create(slot)
        try:
            return await run.run()
        finally:
            self._never_ready[slot.number] = 0 if slot.number in self._ready else self._never_ready[slot.number] + 1
            self._ready.discard(slot.number)
            del self._runs[slot.number]

    def _may_start(self, slot: Slot) -> bool:
        """Whether the roles that its controller waits for are ready or complete."""
        for role, state in slot.made.after:
            reached = self._done if state == "Complete" else self._ready | self._done
            if any(one.made.role == role and one.number not in reached for one in self._slots):
                return False
        return True

    async def _take(self, task: asyncio.Task[PodEnd]) -> JobEnd | None:
        """Note a pod's end and do what follows from it. Returns the run's end if this ends the run."""
        slot = self._tasks.pop(task)
        end = task.result()
        self._ends.append(end)
        decision = await self._decide(end)
        seconds = decision.seconds * self._pace if isinstance(decision, Replace | Restart) else 0.0
        self._observer.decided(end, decision, seconds)
        self.on_decision(end, decision, seconds)
        match decision:
            case Replace():
                if not decision.seconds and self._never_ready[slot.number] >= ENDLESS:
                    message = f"{ENDLESS} pods of {slot.name} ended before they were ready, and each gets a successor at once"
                    self._stops.add(StopRequest("CrashLoop", message))
                self._start(slot, seconds)
            case Restart(role=role):
                again = [one for one in self._slots if role in (None, one.made.role)]
                await self._end([task for task, one in self._tasks.items() if one in again])
                self._done -= {one.number for one in again}
                self._later = deque(one for one in self._slots if one in self._later or (one.later and one in again))
                for one in again:
                    if not one.later:
                        self._start(one, seconds)
            case IndexDone() | IndexFailed():
                self._settle(slot, decision)
            case JobEnd():
                return decision
        return None

    async def _decide(self, end: PodEnd) -> Decision:
        if question := self._controller.asks(end):
            found = (run for run in self._runs.values() if run.pod.slot.made.role == question.role)
            asked = next(found, None)
            self._controller.heard(await asyncio.to_thread(self._ask, asked, question) if asked else "")
        return self._controller.record(end)

    def _settle(self, slot: Slot, decision: Decision) -> None:
        """It gets no other pod, which makes room for one that has to come later."""
        if isinstance(decision, IndexDone):
            self._done.add(slot.number)
        if self._later:
            self._start(self._later.popleft(), 0.0)
        self._note_change()

    async def _finish(self, end: JobEnd) -> RunResult:
        """The controller deletes the pods that still run; their ends decide nothing any more."""
        if self._runs:
            self._observer.stopping(f"the run {'has failed' if end.failed else 'is complete'} ({end.reason})")
        self._ends += await self._end_all()
        return RunResult(end, tuple(self._ends))

    async def _stopped(self, request: StopRequest) -> RunResult:
        """Pods that succeed while they are told to stop still count: they may complete the run."""
        self._observer.stopping(request.message)
        end = None
        for pod_end in await self._end_all():
            self._ends.append(pod_end)
            if pod_end.succeeded:
                decision = await self._decide(pod_end)
                end = decision if isinstance(decision, JobEnd) else end
                if isinstance(decision, IndexDone | JobEnd):
                    self._observer.decided(pod_end, decision, 0.0)
        complete = end is not None and not end.failed
        return RunResult(end if complete else None, tuple(self._ends), request)

    async def _end_all(self) -> list[PodEnd]:
        for run in self._runs.values():
            run.give_up_node()
        return await self._end(list(self._tasks))

    async def _end(self, tasks: list[asyncio.Task[PodEnd]]) -> list[PodEnd]:
        """End pods: one that runs gets SIGTERM and its grace period, one that waits for its start never comes."""
        for task in tasks:
            if run := self._runs.get(self._tasks[task].number):
                run.terminate()
            else:
                task.cancel()
        killer = asyncio.create_task(self._kill_on_request())
        finished = await asyncio.gather(*tasks, return_exceptions=True)
        killer.cancel()
        for task in tasks:
            del self._tasks[task]
        for error in finished:
            if isinstance(error, Exception):
                raise error
        return [end for end in finished if isinstance(end, PodEnd)]

    async def _kill_on_request(self) -> None:
        if self._stops.first.done():
            await self._stops.second.wait()
        else:
            await asyncio.shield(self._stops.first)
        for run in list(self._runs.values()):
            run.give_up_node()
            run.kill()
