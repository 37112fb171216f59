"""The supervisor of one pod: from the specification to the exit code and the termination message, with probes meanwhile.

``/livez``, ``/readyz`` and ``/metrics`` are served only once the specification is valid, so both probes always pass: ``/livez``
is the supervisor's own life, ``/readyz`` never training progress. Operators whose Services hide unready pods would otherwise keep
the peers from finding each other, and a liveness probe on progress would look like a preemption.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import socketserver
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from trainwright_trainer import __version__
from trainwright_trainer.contract.exit_codes import (
    DIAGNOSE_COMMAND,
    TERMINATION_PATH,
    Cause,
    ExitCode,
    TerminationMessage,
    reason_of,
)
from trainwright_trainer.contract.failures import PodError
from trainwright_trainer.contract.layout import TERMINATION_PATH_ENV
from trainwright_trainer.contract.limits import limits
from trainwright_trainer.contract.spec import MPIRendezvous, RunSpec, TrackerRendezvous, World
from trainwright_trainer.contract.spec_file import read_specification, specification_path
from trainwright_trainer.observe import log
from trainwright_trainer.observe.log import get_log
from trainwright_trainer.observe.metrics import Measurements
from trainwright_trainer.supervisor import signals
from trainwright_trainer.supervisor.launchers.elastic import ElasticRole
from trainwright_trainer.supervisor.launchers.mpi import mpi_role
from trainwright_trainer.supervisor.launchers.ray import ray_role
from trainwright_trainer.supervisor.place import PodPlace, bind_address, host_name, pod_place, tasks, tf_place
from trainwright_trainer.supervisor.pod.launcher import (
    AGREE_BY_COLLECTIVE,
    LocalLauncher,
    Setting,
    check_program,
    local_launcher,
    static_rendezvous,
)
from trainwright_trainer.supervisor.pod.rank import adopt_orphans, reap, sweep
from trainwright_trainer.supervisor.run.attempt import Role, connected_attempt, lone_attempt
from trainwright_trainer.supervisor.run.recovery import RecoveringRole
from trainwright_trainer.supervisor.wire.proof import read_secret


def role_of(setting: Setting) -> Role:
    """The role of this pod. Raises :class:`PodError` where the pod and the specification disagree. Needs a running loop."""
    rendezvous, command = setting.spec.world.rendezvous, setting.spec.work.kind == "command"
    read_secret(setting.spec.world.control_secret)  # whoever needs it reads it again; what is wrong with it is said at once
    if isinstance(rendezvous, MPIRendezvous) and not command:
        return mpi_role(setting, rendezvous)
    if command and not setting.program:
        message = "work.kind is command, and the pod names none; its container runs `trainwright-trainer supervise -- COMMAND`"
        raise PodError(ExitCode.INVALID_SPEC, "NoCommand", message)
    if setting.program and not command:
        message = (
            f"`supervise -- {setting.program[0]} …` names a command, and world.rendezvous.kind is {rendezvous.kind}: only "
            "mpi-hostfile has a launcher to start; remove the command from the pod, or let work.command name it"
        )
        raise PodError(ExitCode.INVALID_SPEC, "NoLauncher", message)
    role = _by_itself(setting) if command and rendezvous.kind not in _NUMBERED else _ROLES[rendezvous.kind](setting)
    check_program(setting)
    return role


def _by_itself(setting: Setting) -> Role:
    """A command whose launchers meet by other means than the pods' numbers: each supervisor decides for its own pod."""
    place = PodPlace(None, bind_address(setting.environ), host_name(setting.environ))
    return lone_attempt(setting, place, local_launcher(setting, place, {}))


def _numbered(setting: Setting) -> Role:
    """Static and dmlc-tracker: node 0 is known beforehand, and all supervisors are connected to its own."""
    world = setting.spec.world
    place, rendezvous_env = pod_place(setting.environ, world), static_rendezvous(world)
    if isinstance(world.rendezvous, TrackerRendezvous):
        rendezvous_env |= _tracker(world, place)
    return _connected(setting, place, local_launcher(setting, place, rendezvous_env))


def _connected(setting: Setting, place: PodPlace, launcher: LocalLauncher) -> Role:
    recovery = setting.spec.lifecycle.recovery
    if recovery is None:
        return connected_attempt(setting, place, launcher)
    return RecoveringRole(setting, place, recovery, launcher)


def _tracker(world: World, place: PodPlace) -> dict[str, str]:
    """By the names of Kubeflow Trainer (pkg/runtime/framework/plugins/xgboost), whose pods have one worker each."""
    return {
        "DMLC_TRACKER_URI": world.meeting.host, "DMLC_TRACKER_PORT": str(world.meeting.port),
        "DMLC_NUM_WORKER": str(world.size), "DMLC_TASK_ID": str(place.node),
    }


def _by_tf_config(setting: Setting) -> Role:
    """tf-config: the operator names every task. Without ``control_port`` nothing connects the supervisors of several pods."""
    spec, environ = setting.spec, setting.environ
    host, port = tasks(environ, spec.world).first
    place, rendezvous_env = tf_place(environ, spec.world), {"MASTER_ADDR": host, "MASTER_PORT": port}
    if place.control is not None or spec.world.nodes == 1:
        return _connected(setting, place, local_launcher(setting, place, rendezvous_env))
    return lone_attempt(setting, place, local_launcher(setting, place, {**rendezvous_env, **AGREE_BY_COLLECTIVE}))


_NUMBERED = ("static", "dmlc-tracker")
_ROLES: Mapping[str, Callable[[Setting], Role]] = {
    "static": _numbered,
    "dmlc-tracker": _numbered,
    "tf-config": _by_tf_config,
    "c10d": ElasticRole,
    "ray-head": ray_role,
}


CLIENT_SECONDS = 10
MOST_CLIENTS = 8
"""At the port for probes and metrics at the same time; each has a thread."""
BACKLOG = 128
"""Clients that nobody has accepted yet. The kernel passes over the others, which try again after a second."""
UNKNOWN = "unknown"


def supervise(
    environ: Mapping[str, str], path: Path | None = None, program: Sequence[str] = (),
    trainer_command: Sequence[str] | None = None,
) -> int:
    """Run this pod's part of a run. Blocks, and owns the process: its signals, and all of its children.

    Args:
        environ: The pod's environment.
        path: The specification; by default where the environment says.
        program: The command after ``supervise --``: what a pod under mpirun is to start.
        trainer_command: What to start as each rank of a run that is no script. Default: the program of its engine.

    Returns:
        The exit code, one of :class:`ExitCode`; the termination message carries the same. Never raises. SIGTERM and SIGINT are
        held from then on: they come too late to change the code.
    """
    report = Report(environ)
    log.configure(UNKNOWN, UNKNOWN)
    try:
        return asyncio.run(_Supervisor(environ, path or specification_path(environ), program, trainer_command, report).run())
    except PodError as error:
        return report.write(error.exit_code, error.cause)
    except KeyboardInterrupt:
        cause = Cause(kind="ToldToEnd", message="told to end by SIGINT before the run began")
        return report.write(ExitCode.PREEMPTED_NOT_SAVED, cause)
    except Exception as error:
        get_log().error("supervisor_failed", exc_info=error)
        return report.write(ExitCode.INTERNAL, _unexpected(error))


class _Supervisor:
    def __init__(
        self, environ: Mapping[str, str], path: Path, program: Sequence[str], trainer_command: Sequence[str] | None,
        report: Report,
    ) -> None:
        self._environ, self._report = environ, report
        self._trainer_command = None if trainer_command is None else tuple(trainer_command)
        self._path, self._program = path, tuple(program)

    async def run(self) -> int:
        specification = read_specification(self._path)
        spec = self._report.spec = specification.spec
        log.configure(spec.run, spec.identity)
        setting = Setting(self._environ, specification, self._program, self._trainer_command, Measurements())
        setting.measurements.update(limits(spec))
        role = role_of(setting)
        self._report.node = role.place.node
        log.configure(spec.run, spec.identity, None, role.place.node)
        serve_probes(role.place.bind, spec.http_port, setting.measurements)
        get_log().info("supervisor_started", version=__version__, nodes=spec.world.nodes, processes=spec.world.processes_per_node)

        self._watch_process(role)
        decided = await role.run_to_end()

        sweep()
        self._report.attempt, self._report.step, self._report.committed_step = role.attempt, role.step, role.committed_step
        self._report.attempts, self._report.goodput = _attempts_and_goodput(setting.measurements)
        code = self._report.write(decided.code, decided.cause)
        await role.leave(decided)
        signals.hold()
        return code

    def _watch_process(self, role: Role) -> None:
        loop = asyncio.get_running_loop()
        adopt_orphans()
        loop.add_signal_handler(signal.SIGCHLD, reap, role.child_ended)
        for number in signals.ENDING:
            loop.add_signal_handler(number, role.told_to_end, number.name)
        signals.release()

        def on_error(_loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
            error = context.get("exception")
            if "socket" in context and isinstance(error, OSError):  # too many connections: asyncio accepts again in a second
                get_log().warning("connection_not_accepted", reason=error.strerror)
                return
            role.fail(_unexpected(error if isinstance(error, BaseException) else RuntimeError(str(context.get("message")))))
            get_log().error("supervisor_failed", exc_info=error, reason=str(context.get("message")))

        loop.set_exception_handler(on_error)


def _attempts_and_goodput(measurements: Measurements) -> tuple[int | None, float | None]:
    """How many attempts there were, and their goodput."""
    attempts, goodput = measurements.value("trainwright_attempt"), measurements.value("trainwright_goodput")
    return None if attempts is None else int(attempts), None if goodput is None else round(goodput, 4)


def _unexpected(error: BaseException) -> Cause:
    kind, lines = type(error).__name__, str(error).strip().splitlines()
    return Cause(kind=kind, message=f"unexpected error in the supervisor: {kind}: {lines[0] if lines else 'no message'}")


def serve_probes(bind: str, port: int, measurements: Measurements) -> ThreadingHTTPServer:
    """Serve in daemon threads until the process ends. Raises :class:`PodError` where the address cannot be used."""
    family = socket.AF_INET6 if ":" in bind else socket.AF_INET
    server_type = type("ProbeServer", (_Server,), {"address_family": family})
    handler = type("Handler", (_Handler,), {"measurements": measurements})
    try:
        server: ThreadingHTTPServer = server_type((bind, port), handler)
    except OSError as error:
        message = f"cannot listen on {bind}:{port} for probes and metrics: {error.strerror}; free the port, or change http_port"
        raise PodError(ExitCode.INTERNAL, "CannotListen", message) from None
    threading.Thread(target=server.serve_forever, name="probes", daemon=True).start()
    return server


class _Server(ThreadingHTTPServer):
    """Of more clients than it serves at once, the oldest goes: an answer takes milliseconds, so that one asks nothing. To turn
    the newest away would let whoever holds connections open make the pod's probes fail.
    """

    daemon_threads = True
    request_queue_size = BACKLOG

    def __init__(self, *arguments: Any) -> None:
        self._clients: dict[socket.socket, None] = {}
        self._lock = threading.Lock()
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._clients[request] = None
            oldest = next(iter(self._clients))
            if len(self._clients) > MOST_CLIENTS:
                del self._clients[oldest]
                with suppress(OSError):  # it went by itself
                    oldest.shutdown(socket.SHUT_RDWR)  # its thread then reads the end, and leaves
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._clients.pop(request, None)
        super().shutdown_request(request)

    def server_bind(self) -> None:
        # HTTPServer's own also asks the name server for this address, and a pod must start while none answers.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Pass over a client that went away before its answer: it is not worth a traceback in the log."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    measurements: Measurements
    timeout = CLIENT_SECONDS
    server_version = "trainwright"
    sys_version = ""

    def do_GET(self) -> None:
        match self.path.partition("?")[0]:
            case "/livez" | "/readyz":
                self._answer(200, "text/plain; charset=utf-8", b"ok\n")
            case "/metrics":
                self._answer(200, "text/plain; version=0.0.4; charset=utf-8", self.measurements.text())
            case _:
                self._answer(404, "text/plain; charset=utf-8", b"try /livez, /readyz or /metrics\n")

    def _answer(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Probes come every few seconds; they are not worth a line."""


class Report:
    """Filled in as the pod learns about itself, so that whatever ends it finds the most there is to say."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._path = _message_path(environ)
        self.spec: RunSpec | None = None
        self.node: int | None = None
        self.attempt: str | None = None
        self.step: int | None = None
        self.committed_step: int | None = None
        self.attempts: int | None = None
        self.goodput: float | None = None

    def write(self, code: ExitCode, cause: Cause | None = None) -> int:
        """Write the message and log it. Gives the exit code; a path that cannot be written changes nothing about it."""
        message = TerminationMessage(
            run=self.spec.run if self.spec else UNKNOWN,
            identity=self.spec.identity if self.spec else UNKNOWN,
            attempt=self.attempt or UNKNOWN,
            code=int(code),
            reason=reason_of(code),
            node_index=self.node,
            host=host_name(self._environ),
            step=self.step,
            committed_step=self.committed_step,
            attempts=self.attempts,
            goodput=self.goodput,
            see=None if code is ExitCode.DONE else " ".join((*DIAGNOSE_COMMAND, *([self.spec.run] if self.spec else []))),
            cause=cause,
        )
        if self._path is not None:
            with suppress(OSError):
                self._path.write_bytes(message.to_json().encode())
        with suppress(OSError, ValueError):  # standard output may be gone
            _log_end(message)
        return int(code)


def _log_end(message: TerminationMessage) -> None:
    level = {ExitCode.DONE: "info", ExitCode.PREEMPTED_SAVED: "warning", ExitCode.PREEMPTED_NOT_SAVED: "warning"}
    facts: dict[str, object] = {"code": message.code, "reason": message.reason}
    facts |= {"step": message.step, "committed_step": message.committed_step, "goodput": message.goodput}
    if message.cause is not None:
        facts |= {"cause": message.cause.message, "cause_kind": message.cause.kind, "cause_rank": message.cause.rank}
    getattr(get_log(), level.get(ExitCode(message.code), "error"))("pod_ended", **facts)


def _message_path(environ: Mapping[str, str]) -> Path | None:
    """Where the message goes. The kubelet mounts the usual file beforehand; outside a pod nothing is put into ``/dev``."""
    if given := environ.get(TERMINATION_PATH_ENV):
        return Path(given)
    usual = Path(TERMINATION_PATH)
    return usual if usual.exists() else None
