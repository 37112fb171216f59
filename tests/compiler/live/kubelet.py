"""What the API server hands on to a kubelet, for a real kubectl: logs as they are written, files that `cat` prints, metrics.

The protocol of `kubectl exec` is a WebSocket whose frames begin with the number of a stream (KEP-4006, v5.channel.k8s.io).
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs

STDOUT, ERROR = b"\x01", b"\x03"
_MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
"""RFC 6455, section 1.3."""


@dataclass
class Log:
    """What a container writes, line by line."""

    lines: list[str] = field(default_factory=list)
    ended: bool = False
    changed: threading.Condition = field(default_factory=threading.Condition)

    def write(self, line: str) -> None:
        with self.changed:
            self.lines.append(line)
            self.changed.notify_all()

    def end(self) -> None:
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def read(self, follow: bool) -> Iterator[str]:
        number = 0
        while True:
            with self.changed:
                while follow and number == len(self.lines) and not self.ended:
                    self.changed.wait()
                if number == len(self.lines):
                    return
                line = self.lines[number]
            number += 1
            yield line


@dataclass
class Kubelet:
    """Of all nodes."""

    logs: dict[str, Log] = field(default_factory=dict)
    """By pod."""
    files: dict[str, str] = field(default_factory=dict)
    """Path -> text, the same in every pod."""
    metrics: dict[str, str] = field(default_factory=dict)
    """Pod -> what it serves."""
    asked: list[str] = field(default_factory=list)
    """What was run in pods."""

    def serves(self, handler: BaseHTTPRequestHandler, parts: list[str], query: str) -> bool:
        """Whether it has answered a GET of a part of a pod."""
        if len(parts) < 7 or parts[4] != "pods":
            return False
        pod, part, words = parts[5], parts[6], parse_qs(query)
        match part:
            case "log":
                self._log(handler, pod, "follow" in words)
            case "exec":
                self._exec(handler, words["command"])
            case "proxy":
                self._plain(handler, self.metrics.get(pod.partition(":")[0], ""))
            case _:
                return False
        return True

    def _log(self, handler: BaseHTTPRequestHandler, pod: str, follow: bool) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/plain")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for line in self.logs[pod].read(follow) if pod in self.logs else ():
            text = f"{line}\n".encode()
            handler.wfile.write(f"{len(text):x}\r\n".encode() + text + b"\r\n")
            handler.wfile.flush()
        handler.wfile.write(b"0\r\n\r\n")

    def _plain(self, handler: BaseHTTPRequestHandler, text: str) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(text)))
        handler.end_headers()
        handler.wfile.write(text.encode())

    def _exec(self, handler: BaseHTTPRequestHandler, command: list[str]) -> None:
        self.asked.append(" ".join(command))
        key = handler.headers["Sec-WebSocket-Key"] + _MAGIC
        handler.send_response(101)
        handler.send_header("Upgrade", "websocket")
        handler.send_header("Connection", "Upgrade")
        handler.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())  # noqa: S324
        handler.send_header("Sec-WebSocket-Protocol", "v5.channel.k8s.io")
        handler.end_headers()
        program, path = command
        status: dict[str, object] = {"metadata": {}, "status": "Success"}
        if program == "cat" and path in self.files:
            handler.wfile.write(_frame(STDOUT + self.files[path].encode()))
        else:
            causes = [{"reason": "ExitCode", "message": "1"}]
            status |= {"status": "Failure", "reason": "NonZeroExitCode", "message": "command terminated with exit code 1",
                       "details": {"causes": causes}}
        handler.wfile.write(_frame(ERROR + json.dumps(status).encode()))
        handler.wfile.write(b"\x88\x02" + struct.pack("!H", 1000))
        handler.close_connection = True


def _frame(payload: bytes) -> bytes:
    size = bytes([len(payload)]) if len(payload) < 126 else b"\x7e" + struct.pack("!H", len(payload))
    return b"\x82" + size + payload
