"""One pod as local processes: what the kubelet does from its start to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from trainwright.rehearsal.container import set_up
from trainwright.rehearsal.container_run import ContainerRun
from trainwright.rehearsal.kinds import Container
from trainwright.rehearsal.observer import Observer
from trainwright.rehearsal.pod import Pod
from trainwright.rehearsal.pod_end import ContainerEnd, PodEnd
from trainwright.rehearsal.prober import Prober
from trainwright.rehearsal.setting import Setting

OnLine = Callable[[Pod, str, str], None]
NeverReady = Callable[[Pod, str], None]


class PodRun:
    """Init containers in order, then all containers at once; the pod ends when they all have.

    Args:
        on_line: Gets each line of output, with the container's name.
        never_ready: Told once if a readiness or startup probe has not passed within the rehearsal's bound.
    """

    def __init__(self, pod: Pod, setting: Setting, observer: Observer, on_line: OnLine, never_ready: NeverReady) -> None:
        self.pod = pod
        self._setting, self._observer, self._on_line, self._never_ready = setting, observer, on_line, never_ready
        self._running: list[ContainerRun] = []
        self._ready: set[str] = set()
        self._terminating = False

    async def run(self) -> PodEnd:
        """Until no process of the pod is left. Whatever ends this call ends them too."""
        try:
            ends = await self._init_containers()
            if all(end.exit_code == 0 for end in ends) and not self._terminating:
                ends = await self._containers()
        finally:
            for container in self._running:
                container.kill()
        end = PodEnd(self.pod.name, self.pod.namespace, self.pod.index, tuple(ends))
        self._observer.pod_ended(self.pod, end)
        return end

    def terminate(self) -> None:
        """Tell every container to end: SIGTERM, and SIGKILL after the pod's grace period."""
        self._terminating = True
        for container in self._running:
            container.terminate(self._setting.spec.termination_grace_period_seconds)

    def kill(self) -> None:
        """SIGKILL to everything at once."""
        self._terminating = True
        for container in self._running:
            container.kill()

    async def _init_containers(self) -> list[ContainerEnd]:
        ends: list[ContainerEnd] = []
        for container in self._setting.spec.init_containers:
            [run] = await self._start([container])
            ends.append(await run.wait())
            if ends[-1].exit_code or self._terminating:
                break
        return ends

    async def _containers(self) -> list[ContainerEnd]:
        runs = await self._start(self._setting.spec.containers)
        self._observer.pod_started(self.pod)
        self._note_ready(None)
        return list(await asyncio.gather(*map(self._follow, runs)))

    async def _start(self, containers: Sequence[Container]) -> list[ContainerRun]:
        self._running = [
            ContainerRun(container, set_up(container, self.pod, self._setting), self._line_reader(container))
            for container in containers
        ]
        for run in self._running:
            await run.start()
        if self._terminating:  # told so while the processes were starting
            self.terminate()
        return self._running

    async def _follow(self, run: ContainerRun) -> ContainerEnd:
        prober = Prober(
            run, self.pod,
            on_ready=lambda: self._note_ready(run.container.name),
            on_event=lambda text: self._observer.pod_event(self.pod, text),
            on_never_ready=lambda text: self._never_ready(self.pod, text),
            on_dead=lambda: run.terminate(self._setting.spec.termination_grace_period_seconds),
            ready_seconds=self._setting.options.ready_seconds,
        )
        probes = asyncio.create_task(prober.run())
        try:
            return await run.wait()
        finally:
            probes.cancel()

    def _note_ready(self, container: str | None) -> None:
        """A container without a readiness probe is ready as soon as it runs."""
        wanted = {one.name for one in self._setting.spec.containers if one.readiness_probe is not None}
        was_ready = container is not None and wanted <= self._ready
        self._ready |= {container} if container else set()
        if wanted <= self._ready and not was_ready:
            self._observer.pod_ready(self.pod)

    def _line_reader(self, container: Container) -> Callable[[str], None]:
        return lambda line: self._on_line(self.pod, container.name, line)
