"""Job controller: starts a pod for each index, replaces those that fail, and ends the Job."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from trainwright.operators.ending import IndexDone, JobEnd, PodEnd, Replace
from trainwright.operators.job.ended import JobStatus
from trainwright.rehearsal.kinds import Job
from trainwright.rehearsal.kubelet import PodRun
from trainwright.rehearsal.observer import Observer


@dataclass(frozen=True, slots=True)
class StopRequest:
    """Why a rehearsal is to end before its Job does."""

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
class JobResult:
    """How a Job ended, or why it was stopped."""

    end: JobEnd | None
    """None where it was stopped before."""
    pods: tuple[PodEnd, ...]
    """In the order in which they ended."""
    stopped: StopRequest | None = None


class JobController:
    """Runs one Job once.

    Args:
        create: Makes the next pod of an index.
        replace_seconds: Delay before an index gets its next pod.
    """

    def __init__(
        self, job: Job, create: Callable[[int], PodRun], observer: Observer, stops: StopRequests, replace_seconds: float
    ) -> None:
        self._job, self._create, self._observer, self._stops = job, create, observer, stops
        self._replace_seconds = replace_seconds
        self._status = JobStatus(job.model_dump(by_alias=True, exclude_none=True))
        self._waiting = deque(range(job.completions))
        self._tasks: dict[asyncio.Task[PodEnd], int] = {}
        self._runs: dict[int, PodRun] = {}
        self._ends: list[PodEnd] = []

    async def run(self) -> JobResult:
        """Run the pods until the Job is over, or until it is told to stop. No process is ever left."""
        deadline = self._job.spec.active_deadline_seconds
        loop = asyncio.get_running_loop()
        over_at = None if deadline is None else loop.time() + deadline
        try:
            while True:
                self._fill()
                left = None if over_at is None else max(0.0, over_at - loop.time())
                awaited: set[asyncio.Future[Any]] = {*self._tasks, self._stops.first}
                done, _ = await asyncio.wait(awaited, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                if not done:
                    return await self._fail(JobEnd("Failed", "DeadlineExceeded", "Job was active longer than specified deadline"))
                if self._stops.first.done():
                    return await self._stopped(self._stops.first.result())
                for task in [task for task in self._tasks if task in done]:
                    if end := self._take(task):
                        return await self._fail(end) if end.type == "Failed" else JobResult(end, tuple(self._ends))
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _fill(self) -> None:
        while self._waiting and len(self._tasks) < self._job.spec.parallelism:
            self._start(self._waiting.popleft(), 0.0)

    def _start(self, index: int, delay_seconds: float) -> None:
        self._tasks[asyncio.create_task(self._lifetime(index, delay_seconds))] = index

    async def _lifetime(self, index: int, delay_seconds: float) -> PodEnd:
        await asyncio.sleep(delay_seconds)
        run = self._runs[index] = self._create(index)
        try:
            return await run.run()
        finally:
            del self._runs[index]

    def _take(self, task: asyncio.Task[PodEnd]) -> JobEnd | None:
        """Note a pod's end and do what follows from it. Returns the Job's end if this ends the Job."""
        index = self._tasks.pop(task)
        end = task.result()
        self._ends.append(end)
        decision = self._status.record(end)
        self._observer.decided(end, decision, self._replace_seconds)
        if isinstance(decision, Replace):
            self._start(index, self._replace_seconds)
        return decision if isinstance(decision, JobEnd) else None

    async def _fail(self, end: JobEnd) -> JobResult:
        """The controller deletes the pods that still run; their ends decide nothing any more."""
        if self._runs:
            self._observer.stopping(f"the Job has failed ({end.reason})")
        await self._end_all()
        return JobResult(end, tuple(self._ends))

    async def _stopped(self, request: StopRequest) -> JobResult:
        """Pods that succeed while they are told to stop still count: they may complete the Job."""
        self._observer.stopping(request.message)
        end = None
        for pod_end in await self._end_all():
            if pod_end.succeeded:
                decision = self._status.record(pod_end)
                end = decision if isinstance(decision, JobEnd) else end
                if isinstance(decision, IndexDone | JobEnd):
                    self._observer.decided(pod_end, decision, 0.0)
        complete = end is not None and end.type == "Complete"
        return JobResult(end if complete else None, tuple(self._ends), request)

    async def _end_all(self) -> list[PodEnd]:
        """End every pod: one that runs gets SIGTERM and its grace period, one that waits for its start never comes."""
        for run in self._runs.values():
            run.terminate()
        for task, index in self._tasks.items():
            if index not in self._runs:
                task.cancel()
        killer = asyncio.create_task(self._kill_on_request())
        finished = await asyncio.gather(*self._tasks, return_exceptions=True)
        killer.cancel()
        self._tasks.clear()
        ends = [end for end in finished if isinstance(end, PodEnd)]
        self._ends += ends
        for error in finished:
            if isinstance(error, Exception):
                raise error
        return ends

    async def _kill_on_request(self) -> None:
        if self._stops.first.done():
            await self._stops.second.wait()
        else:
            await asyncio.shield(self._stops.first)
        for run in list(self._runs.values()):
            run.kill()
