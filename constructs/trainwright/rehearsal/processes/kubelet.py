"""One pod as local processes: what the kubelet does from its start to its end, probes included."""

from __future__ import annotations

import asyncio
import http.client
import os
import socket
import ssl
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

from trainwright.operators.ending import ContainerEnd, PodEnd
from trainwright.rehearsal.networks.network import Network
from trainwright.rehearsal.observer import Observer
from trainwright.rehearsal.processes.container import ContainerRun, LocalProcess, set_up
from trainwright.rehearsal.processes.container_init import KILLED
from trainwright.rehearsal.processes.place import publish, write_hosts
from trainwright.rehearsal.processes.ray import ask_at
from trainwright.rehearsal.setting import Setting
from trainwright.rehearsal.stated.environment import find_program, not_found
from trainwright.rehearsal.stated.kinds import Container, Exec, HttpGet, Probe, TcpSocket
from trainwright.rehearsal.stated.pod import Pod

OnLine = Callable[[Pod, str, str], None]
NeverReady = Callable[[Pod, str], None]

FIRST_PERIOD_SECONDS = 0.5
"""Until a probe passes for the first time it is polled this often, so that a rehearsal does not wait for a period to pass."""
_PROC = Path("/proc")
_LISTEN = "0A"


FIRST_BACK_OFF, MOST_BACK_OFF = 10, 300
"""Seconds before the kubelet starts a container again; doubled each time (pkg/kubelet, MaxContainerBackOff)."""


DISRUPTED = frozenset({("DisruptionTarget", "True")})
"""The condition that drain and preemption set, and nothing else (kubernetes.io, "Pod disruption conditions")."""


class PodRun:
    """Runs the init containers in order, then all containers at once; the pod ends when they all have.

    A sidecar (an init container that restarts always) stays until then. Where the pod's restartPolicy says so, a container that
    has ended is started again. A pod that is told to end before all containers could start has failed: those that never ran count
    as killed (pkg/kubelet/status, TerminatePod).

    Args:
        on_line: Called with each line of output and the container's name.
        ready: Called when all containers are ready.
        never_ready: Called once if a readiness or startup probe has not passed within the rehearsal's bound.
        restarting: Called before a container is started again.
    """

    def __init__(
        self, pod: Pod, setting: Setting, observer: Observer, on_line: OnLine, *, ready: Callable[[], None],
        never_ready: NeverReady, restarting: Callable[[], None],
    ) -> None:
        self.pod = pod
        self._setting, self._observer, self._on_line, self._never_ready = setting, observer, on_line, never_ready
        self._tell_ready, self._restarting = ready, restarting
        self._running: dict[str, ContainerRun] = {}
        self._ready: set[str] = set()
        self._terminating = False
        self._ended = asyncio.Event()
        self._conditions = frozenset[tuple[str, str]]()
        self._node_is_back: asyncio.Event | None = None

    async def run(self) -> PodEnd:
        """Run until no process of the pod is left. Whatever ends this call ends them too."""
        sidecars: list[asyncio.Task[ContainerEnd]] = []
        self._setting.network.attach(self.pod.slot.number)
        write_hosts(self.pod, self._setting)
        try:
            ends = await self._init_containers(sidecars)
            if self._terminating:
                ends += [ContainerEnd(container.name, KILLED, "it never ran") for container in self.pod.spec.containers]
            elif all(end.exit_code == 0 for end in ends):
                ends = await self._containers()
        finally:
            self._terminating = True
            self._ended.set()
            if sidecars:
                self.terminate()
                await asyncio.gather(*sidecars, return_exceptions=True)
            for container in self._running.values():
                container.kill()
            self._setting.network.detach(self.pod.slot.number)
        if self._node_is_back is not None:  # nobody reports the pod's end
            await self._node_is_back.wait()
        made, owner = self.pod.slot.made, self.pod.slot.owner
        end = PodEnd(self.pod.name, self.pod.namespace, made.index, tuple(ends), self._conditions, made.role, owner)
        self._observer.pod_ended(self.pod, end)
        return end

    def terminate(self) -> None:
        """Tell every container to end: SIGTERM, and SIGKILL after the pod's grace period."""
        self._terminating = True
        self._ended.set()
        for container in self._running.values():
            container.terminate(self.pod.spec.termination_grace_period_seconds)

    def kill(self, container: str | None = None) -> None:
        """Send SIGKILL to every container at once, or to all processes of one, as the kernel does that has no memory left."""
        if container is not None:
            self._running[container].kill()  # it may be started again in its pod
            return
        self._terminating = True
        self._ended.set()
        for run in self._running.values():
            run.kill()

    def disrupt(self) -> None:
        """Evict it, as for a pod of higher priority: the condition comes first, and then the grace period."""
        self._conditions = DISRUPTED
        self.terminate()

    def lose_node(self) -> None:
        """Its processes are gone, and no kubelet says so: for its controller it stays until :meth:`give_up_node`."""
        self._node_is_back = asyncio.Event()
        self._observer.pod_event(self.pod, "its node is lost, and the pod stays Terminating")
        self.kill()

    def give_up_node(self) -> None:
        """The Node object is removed, and the pod with it."""
        if self._node_is_back is not None:
            self._node_is_back.set()

    @property
    def roots(self) -> list[int]:
        """The processes that stand for the runtimes of its containers."""
        return [run.pid for run in self._running.values() if run.is_started]

    def runs(self, container: str) -> bool:
        """Whether it was started."""
        return container in self._running

    async def _init_containers(self, sidecars: list[asyncio.Task[ContainerEnd]]) -> list[ContainerEnd]:
        """Sidecars go on; the next container starts when their startup probe, if there is one, has passed."""
        ends: list[ContainerEnd] = []
        for container in self.pod.spec.init_containers:
            if container.is_sidecar:
                started = asyncio.Event()
                sidecars.append(asyncio.create_task(self._keep(container, lambda code: True, started.set)))
                await asyncio.wait([sidecars[-1], asyncio.create_task(started.wait())], return_when=asyncio.FIRST_COMPLETED)
                continue
            loop, limit = asyncio.get_running_loop(), self._setting.options.ready_seconds
            warning = loop.call_later(limit, self._init_container_stays, container)
            try:
                ends.append(await self._keep(container, lambda code: code != 0 and self.pod.spec.restart_policy != "Never"))
            finally:
                warning.cancel()
            if ends[-1].exit_code or self._terminating:
                break
        return ends

    def _init_container_stays(self, container: Container) -> None:
        seconds = self._setting.options.ready_seconds
        text = f"Init container {container.name} has not ended within {seconds:g} s, so no container of the pod starts"
        self._never_ready(self.pod, text)

    async def _containers(self) -> list[ContainerEnd]:
        policy = self.pod.spec.restart_policy
        self._observer.pod_started(self.pod)
        if not self._setting.dns.hidden(self.pod.slot):
            publish(self.pod, self._setting)
        self._note_ready(None)
        again = {"Never": lambda code: False, "OnFailure": lambda code: code != 0}.get(policy, lambda code: True)
        return list(await asyncio.gather(*(self._keep(container, again) for container in self.pod.spec.containers)))

    async def _keep(
        self, container: Container, again: Callable[[int], bool], on_started: Callable[[], None] | None = None
    ) -> ContainerEnd:
        """Run a container, and run it again where ``again`` says so of its exit code; returns its last end."""
        wait = FIRST_BACK_OFF
        while True:
            end = await self._run_once(container, on_started)
            if self._terminating or not again(end.exit_code):
                return end
            seconds = wait * self._setting.options.pace
            text = f"container {container.name} ended with exit code {end.exit_code}"
            self._observer.pod_event(self.pod, f"{text} and is started again in its pod in {seconds:g} s")
            self._restarting()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), seconds)
            if self._terminating:
                return end
            wait = min(2 * wait, MOST_BACK_OFF)

    async def _run_once(self, container: Container, on_started: Callable[[], None] | None) -> ContainerEnd:
        run = ContainerRun(container, set_up(container, self.pod, self._setting), self._line_reader(container))
        self._running[container.name] = run
        await run.start()
        if self._terminating:  # requested while the process was starting
            run.terminate(self.pod.spec.termination_grace_period_seconds)
        prober = Prober(
            run, self.pod, self._setting.network,
            on_started=on_started or (lambda: None),
            on_ready=lambda: self._note_ready(container.name),
            on_event=lambda text: self._observer.pod_event(self.pod, text),
            on_never_ready=lambda text: self._never_ready(self.pod, text),
            on_dead=lambda: run.terminate(self.pod.spec.termination_grace_period_seconds),
            ready_seconds=self._setting.options.ready_seconds,
        )  # fmt: skip
        probes = asyncio.create_task(prober.run())
        try:
            return await run.wait()
        finally:
            probes.cancel()
            await asyncio.gather(probes, return_exceptions=True)

    def _note_ready(self, container: str | None) -> None:
        """A container without a readiness probe is ready as soon as it runs."""
        wanted = {one.name for one in self.pod.spec.containers if one.readiness_probe is not None}
        was_ready = container is not None and wanted <= self._ready
        self._ready |= {container} if container else set()
        if wanted <= self._ready and not was_ready:
            publish(self.pod, self._setting)
            self._tell_ready()
            self._observer.pod_ready(self.pod)

    def _line_reader(self, container: Container) -> Callable[[str], None]:
        return lambda line: self._on_line(self.pod, container.name, line)


class Prober:
    """Polls a container's probes while it runs: startup first, then readiness and liveness side by side.

    Args:
        on_started: Called when the startup probe, if there is one, has passed.
        on_ready: Called when readiness passes for the first time.
        on_event: Called with what the kubelet would make an event of.
        on_never_ready: Called once with the reason why readiness or startup has not passed within ``ready_seconds``.
        on_dead: Called when liveness has failed too often: the kubelet kills the container.
    """

    def __init__(
        self, run: ContainerRun, pod: Pod, network: Network, *, on_started: Callable[[], None], on_ready: Callable[[], None],
        on_event: Callable[[str], None], on_never_ready: Callable[[str], None], on_dead: Callable[[], None], ready_seconds: float,
    ) -> None:
        self._run, self._pod, self._network = run, pod, network
        self._on_started, self._on_ready, self._on_event, self._on_never_ready, self._on_dead = (
            on_started, on_ready, on_event, on_never_ready, on_dead,
        )
        self._ready_seconds = ready_seconds
        self._ports = {port.name: port.container_port for port in run.container.ports if port.name}

    async def run(self) -> None:
        """Poll until this is cancelled, which is when the container ends."""
        container = self._run.container
        if container.startup_probe is not None:
            await self._first_pass("Startup", container.startup_probe)
        self._on_started()
        await asyncio.gather(self._watch_readiness(container.readiness_probe), self._watch_liveness(container.liveness_probe))

    async def _watch_readiness(self, probe: Probe | None) -> None:
        if probe is None:
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
        if probe is None:
            return
        await asyncio.sleep(probe.initial_delay_seconds)
        failures = 0
        while failures < probe.failure_threshold:
            await asyncio.sleep(probe.period_seconds)
            reason = await self._attempt(probe)
            failures = failures + 1 if reason else 0
        times = "once" if failures == 1 else f"{failures} times"
        self._on_event(f"Liveness probe failed {times}: {reason}; container {self._run.container.name} will be killed")
        self._on_dead()

    async def _first_pass(self, name: str, probe: Probe) -> None:
        """Poll until the probe passes. After ``ready_seconds`` say why it does not, and go on polling."""
        deadline = time.monotonic() + self._ready_seconds + probe.initial_delay_seconds
        await asyncio.sleep(probe.initial_delay_seconds)
        reported = False
        while (reason := await self._attempt(probe)) is not None:
            if time.monotonic() > deadline and not reported:
                reported = True
                why = self._with_listeners(reason)
                self._on_never_ready(f"{name} probe of container {self._run.container.name} never passed: {why}")
            await asyncio.sleep(min(probe.period_seconds, FIRST_PERIOD_SECONDS))

    async def _attempt(self, probe: Probe) -> str | None:
        """Poll once, at the pod's address. None for a pass, else why not, in the kubelet's words."""
        target, timeout = probe.http_get or probe.tcp_socket, probe.timeout_seconds
        if probe.grpc is not None:
            return None  # nothing here speaks gRPC
        if target is None:
            return await _execute(self._asked(probe.exec or Exec()), self._run.local, timeout)
        port, path = self._port(target.port), getattr(target, "path", "")
        place = f"{target.host or self._pod.address}:{port}{path}"
        reason = await asyncio.to_thread(self._knock, target, port, timeout)
        return f"{place}: {reason}" if reason else None

    def _asked(self, target: Exec) -> Exec:
        """A command that finds what it asks where that is here."""
        if not self._pod.spec.starts_ray:
            return target
        return Exec(command=[ask_at(self._pod.address, self._port, word) for word in target.command])

    def _knock(self, target: HttpGet | TcpSocket, port: int, timeout: int) -> str | None:
        try:
            with self._network.connect(self._pod.slot.number, port, timeout, target.host) as connection:
                return _http_get(target, connection, self._pod.address) if isinstance(target, HttpGet) else None
        except TimeoutError:
            return f"no answer within {timeout} s"
        except (OSError, http.client.HTTPException) as error:
            return _words(error)

    def _port(self, port: int | str) -> int:
        number = port if isinstance(port, int) else self._ports[port]
        return self._network.port(number, self._pod.slot.number)

    def _with_listeners(self, reason: str) -> str:
        if "refused" not in reason:
            return reason
        found = listening_addresses(self._run.pid)
        return f"{reason}: nothing listens there" + (f"; the container listens on {', '.join(found)}" if found else "")


def _http_get(get: HttpGet, connection: socket.socket, host: str) -> str | None:
    with closing(http.client.HTTPConnection(host)) as asked:
        asked.sock = _unverified().wrap_socket(connection) if get.scheme == "HTTPS" else connection
        asked.request("GET", get.path, headers={header.name: header.value for header in get.http_headers})
        status = asked.getresponse().status
    return None if 200 <= status < 400 else f"HTTP probe failed with statuscode: {status}"


def _unverified() -> ssl.SSLContext:
    """As the kubelet, which does not verify the certificates of probes."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def _execute(target: Exec, local: LocalProcess, timeout: int) -> str | None:
    words, told = list(map(local.rewrite, target.command)), f"command {' '.join(target.command)}"
    if (program := find_program(words[0], local.environment["PATH"])) is None:
        return f"{told}: {not_found(words[0])}"
    process = await local.start([program, *words[1:]], asyncio.subprocess.DEVNULL)
    try:
        code = await asyncio.wait_for(process.wait(), timeout)
    except TimeoutError:
        return f"{told}: no answer within {timeout} s"
    finally:
        if process.stdin is not None:
            process.stdin.close()
        await process.wait()
    return f"{told} exited with {code}" if code else None


def _words(error: BaseException) -> str:
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()


def listening_addresses(root: int) -> list[str]:
    """``address:port`` of each TCP socket that ``root`` or a descendant listens on, sorted; none where there is no /proc."""
    inodes = {inode for pid in descendants(root) for inode in _socket_inodes(pid)}
    found = set()
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in (_PROC / str(root) / "net" / table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTEN and fields[9] in inodes:
                    found.add(_address(fields[1]))
    return sorted(found)


def descendants(root: int) -> Iterator[int]:
    """A process and all that it has started, each before its own; none where there is no /proc."""
    yield root
    with suppress(OSError):
        for listing in (_PROC / str(root) / "task").glob("*/children"):
            for child in listing.read_text().split():
                yield from descendants(int(child))


def _socket_inodes(pid: int) -> Iterator[str]:
    with suppress(OSError):
        for entry in (_PROC / str(pid) / "fd").iterdir():
            with suppress(OSError):
                target = os.readlink(entry)
                if target.startswith("socket:["):
                    yield target[len("socket:[") : -1]


def _address(field: str) -> str:
    """``0200007F:24B8`` is 127.0.0.2:9400: the kernel prints 32-bit words in the machine's byte order."""
    words, _, port = field.partition(":")
    packed = b"".join(int(words[start : start + 8], 16).to_bytes(4, sys.byteorder) for start in range(0, len(words), 8))
    if len(packed) == 4:
        return f"{IPv4Address(packed)}:{int(port, 16)}"
    return f"[{IPv6Address(packed)}]:{int(port, 16)}"
