"""A small Hub on this machine: what huggingface_hub asks of one to list a repository at a commit and to fetch its files."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "5b6f9c1e0a7d4c3b2a190817263544536271809f"
TOKEN = "hf_aTokenThatNoLogHolds"  # noqa: S105


@dataclass
class Hub:
    """One repository at one commit. Files that end with ``.safetensors`` are in large file storage."""

    files: dict[str, bytes]
    name: str = "datasets/example/texts"
    private: bool = False
    gated: bool = False
    served: dict[str, bytes] = field(default_factory=dict)
    """What is sent in place of a file, as a broken cache on the way would."""
    sent: list[str] = field(default_factory=list)
    """Files that were asked for."""
    address: str = ""

    def entries(self) -> list[dict[str, Any]]:
        return [self._entry(path, content) for path, content in self.files.items()]

    def _entry(self, path: str, content: bytes) -> dict[str, Any]:
        entry = {"type": "file", "path": path, "size": len(content), "oid": blob_id(content)}
        if path.endswith(".safetensors"):
            entry["lfs"] = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 130}
        return entry


def blob_id(content: bytes) -> str:
    """As git calls the content of a file."""
    return hashlib.sha1(f"blob {len(content)}\0".encode() + content, usedforsecurity=False).hexdigest()


@contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            path = unquote(urlsplit(self.path).path).lstrip("/")
            kind, _, name = hub.name.rpartition("datasets/")
            of_kind = "datasets" if kind or hub.name.startswith("datasets/") else "models"
            if (hub.private or hub.gated) and self.headers.get("Authorization") != f"Bearer {TOKEN}":
                code = "GatedRepo" if hub.gated else "RepoNotFound"
                return self._answer(401, b"", {"X-Error-Code": code, "X-Error-Message": "not for everybody"})
            listing, files = f"api/{of_kind}/{name}/tree/", f"{hub.name}/resolve/{COMMIT}/"
            if path.startswith(listing):
                if path != listing + COMMIT:
                    return self._answer(404, b"", {"X-Error-Code": "RevisionNotFound"})
                return self._answer(200, json.dumps(hub.entries()).encode(), {"Content-Type": "application/json"})
            if path.startswith(files) and (wanted := path.removeprefix(files)) in hub.files:
                return self._file(wanted)
            return self._answer(404, b"", {"X-Error-Code": "RepoNotFound"})

        def _file(self, path: str) -> None:
            content = hub.files[path]
            tag = hashlib.sha256(content).hexdigest() if path.endswith(".safetensors") else blob_id(content)
            if self.command == "GET":
                hub.sent.append(path)
            self._answer(200, hub.served.get(path, content), {"X-Repo-Commit": COMMIT, "ETag": f'"{tag}"'})

        def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for key, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(key, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    hub.address = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
