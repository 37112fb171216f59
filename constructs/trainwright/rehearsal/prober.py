"""Prober: polls a container's probes while it runs, as the kubelet does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from trainwright.rehearsal import probe as probes
from trainwright.rehearsal.container_run import ContainerRun
from trainwright.rehearsal.kinds import Probe
from trainwright.rehearsal.listening import listening_addresses
from trainwright.rehearsal.pod import Pod

FIRST_PERIOD_SECONDS = 0.5
"""Until a probe passes for the first time it is polled this often, so that a rehearsal does not wait for a period to pass."""


class Prober:
    """Startup first, then readiness and liveness side by side.

    Args:
        on_ready: Called when readiness passes for the first time.
        on_event: Told what the kubelet would make an event of.
        on_never_ready: Told once why readiness or startup has not passed within ``ready_seconds``.
        on_dead: Called when liveness has failed too often: the kubelet kills the container.
    """

    def __init__(
        self, run: ContainerRun, pod: Pod, *, on_ready: Callable[[], None], on_event: Callable[[str], None],
        on_never_ready: Callable[[str], None], on_dead: Callable[[], None], ready_seconds: float,
    ) -> None:
        self._run, self._pod = run, pod
        self._on_ready, self._on_event, self._on_never_ready, self._on_dead = on_ready, on_event, on_never_ready, on_dead
        self._ready_seconds = ready_seconds
        self._ports = {port.name: port.container_port for port in run.container.ports if port.name}

    async def run(self) -> None:
        """Until it is cancelled, which is when the container ends."""
        container = self._run.container
        if container.startup_probe is not None:
            await self._first_pass("Startup", container.startup_probe)
        await asyncio.gather(self._watch_readiness(container.readiness_probe), self._watch_liveness(container.liveness_probe))

    async def _watch_readiness(self, probe: Probe | None) -> None:
        if probe is None or probe.grpc is not None:
            return
        await self._first_pass("Readiness", probe)
        self._on_ready()
        failures = 0
        while True:
            await asyncio.sleep(probe.period_seconds)
            reason = await self._attempt(probe)
            failures = failures + 1 if reason else 0
            if failures == probe.failure_threshold:
                self._on_event(f"Readiness probe failed: {reason}")

    async def _watch_liveness(self, probe: Probe | None) -> None:
        if probe is None or probe.grpc is not None:
            return
        await asyncio.sleep(probe.initial_delay_seconds)
        failures = 0
        while failures < probe.failure_threshold:
            await asyncio.sleep(probe.period_seconds)
            reason = await self._attempt(probe)
            failures = failures + 1 if reason else 0
        self._on_event(f"Liveness probe failed {failures} times: {reason}; container {self._run.container.name} will be killed")
        self._on_dead()

    async def _first_pass(self, name: str, probe: Probe) -> None:
        """Poll until it passes. After ``ready_seconds`` say why it does not, and poll on."""
        deadline = time.monotonic() + self._ready_seconds + probe.initial_delay_seconds
        await asyncio.sleep(probe.initial_delay_seconds)
        told = False
        while (reason := await self._attempt(probe)) is not None:
            if time.monotonic() > deadline and not told:
                told = True
                why = self._with_listeners(reason)
                self._on_never_ready(f"{name} probe of container {self._run.container.name} never passed: {why}")
            await asyncio.sleep(min(probe.period_seconds, FIRST_PERIOD_SECONDS))

    async def _attempt(self, probe: Probe) -> str | None:
        return await probes.attempt(probe, self._pod.address, self._ports, self._run.local)

    def _with_listeners(self, reason: str) -> str:
        if "refused" not in reason:
            return reason
        found = listening_addresses(self._run.pid)
        return f"{reason}: nothing listens there" + (f"; the container listens on {', '.join(found)}" if found else "")
