"""HTTP server of a pod: ``/livez``, ``/readyz`` and ``/metrics``.

It runs only once the specification is valid, so both probes always pass: ``/livez`` is the supervisor's own life, ``/readyz``
never training progress. Operators whose Services hide unready pods would otherwise keep the peers from finding each other, and a
liveness probe on progress would look like a preemption.
"""

from __future__ import annotations

import socket
import socketserver
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from trainwright_trainer.contract.exit_codes import ExitCode
from trainwright_trainer.contract.failures import PodError
from trainwright_trainer.observe.metrics import Measurements

CLIENT_SECONDS = 10


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
    daemon_threads = True

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
