"""``trainwright images``: an OCI archive, pushed to a small registry that speaks the distribution protocol over HTTP.

`make test-image FAMILY=supervisor` pushes to the reference implementation of that protocol too.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.oci import write_archive
from typer.testing import CliRunner

from trainwright.cli.main import command_line
from trainwright_trainer.commands.local import free_port

LOGIN = base64.b64encode(b"ann:secret").decode()


@dataclass
class Registry:
    """What was pushed. With ``login`` it takes nothing from a client that does not prove who it is."""

    login: bool = False
    blobs: dict[str, bytes] = field(default_factory=dict)
    manifests: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    uploads: int = 0
    port: int = 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


class _Handler(BaseHTTPRequestHandler):
    registry: Registry
    protocol_version = "HTTP/1.1"

    def _answer(self, status: int, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": "0", **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()

    def _refused(self) -> bool:
        if self.registry.login and self.headers.get("Authorization") != f"Basic {LOGIN}":
            self._answer(401, {"Www-Authenticate": 'Basic realm="registry"'})
            return True
        return False

    def do_GET(self) -> None:
        if not self._refused():
            self._answer(200)

    def do_HEAD(self) -> None:
        if not self._refused():
            self._answer(200 if self.path.rpartition("/")[2] in self.registry.blobs else 404)

    def do_POST(self) -> None:
        if not self._refused():
            self.registry.uploads += 1
            self._answer(202, {"Location": f"{self.path}{self.registry.uploads}?state=a"})

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self._refused():
            return
        if tag := re.fullmatch(r"/v2/tools/supervisor/manifests/(\S+)", self.path):
            missing = [one["digest"] for one in json.loads(body)["layers"] if one["digest"] not in self.registry.blobs]
            self.registry.manifests[tag[1]] = (self.headers["Content-Type"], body)
            self._answer(400 if missing else 201)
            return
        digest = self.path.rpartition("digest=")[2].replace("%3A", ":")
        self.registry.blobs[digest] = body
        self._answer(201 if digest == f"sha256:{hashlib.sha256(body).hexdigest()}" else 400)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Registry]:
    monkeypatch.setenv("HOME", str(tmp_path))
    made = Registry()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"registry": made}))
    made.port = server.server_address[1]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield made
    server.shutdown()
    server.server_close()


def push(archive: Path, name: str) -> tuple[int, str, str]:
    ended = CliRunner().invoke(command_line("images"), ["images", str(archive), name])
    return ended.exit_code, ended.stdout, ended.stderr


def test_what_is_pushed_has_the_digest_that_is_printed(registry: Registry, tmp_path: Path) -> None:
    digest = write_archive(tmp_path / "image.tar")
    code, printed, _ = push(tmp_path / "image.tar", f"{registry.address}/tools/supervisor:1")
    assert code == 0
    assert printed == f"supervisor:\n  image: {registry.address}/tools/supervisor@{digest}\n"
    kind, manifest = registry.manifests["1"]
    assert kind == "application/vnd.oci.image.manifest.v1+json"
    assert f"sha256:{hashlib.sha256(manifest).hexdigest()}" == digest
    assert b"a layer" in registry.blobs.values()


def test_what_is_there_is_not_sent_again(registry: Registry, tmp_path: Path) -> None:
    write_archive(tmp_path / "image.tar")
    for _ in range(2):
        assert push(tmp_path / "image.tar", f"{registry.address}/tools/supervisor:1")[0] == 0
    assert registry.uploads == 2  # a layer and the configuration


def test_a_login_is_that_of_docker_s_configuration(registry: Registry, tmp_path: Path) -> None:
    registry.login = True
    write_archive(tmp_path / "image.tar")
    code, _, said = push(tmp_path / "image.tar", f"{registry.address}/tools/supervisor:1")
    assert code == 3
    assert "does not let you push to tools/supervisor: log in to 127.0.0.1" in said
    (tmp_path / ".docker").mkdir()
    (tmp_path / ".docker" / "config.json").write_text(json.dumps({"auths": {registry.address: {"auth": LOGIN}}}))
    assert push(tmp_path / "image.tar", f"{registry.address}/tools/supervisor:1")[0] == 0


def test_what_is_no_archive_is_said_before_anything_is_sent(registry: Registry, tmp_path: Path) -> None:
    name = f"{registry.address}/tools/supervisor:1"
    (tmp_path / "text").write_text("text")
    write_archive(tmp_path / "damaged.tar", damaged=True)
    for file, says in (("no", "there is no "), ("text", "is no OCI archive of one image"), ("damaged.tar", "is damaged")):
        code, printed, said = push(tmp_path / file, name)
        assert (code, printed) == (3, "")
        assert says in said
        assert said.count("\n") == 1
    assert registry.uploads == 0


def test_a_registry_that_nobody_serves_is_said_at_once(tmp_path: Path) -> None:
    write_archive(tmp_path / "image.tar")
    code, _, said = push(tmp_path / "image.tar", f"127.0.0.1:{free_port()}/tools/supervisor:1")
    assert code == 3
    assert "cannot be reached" in said
