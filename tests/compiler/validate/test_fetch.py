"""``trainwright crds``: the pins, and the fetching of them from a server on this machine."""

from __future__ import annotations

import hashlib
import http.server
import re
import socket
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.compiler.validate.samples import UPSTREAM

from trainwright.validate import fetch

PINS = tomllib.loads(fetch.PINS.read_text(encoding="utf-8"))["crd"]


@dataclass
class Server:
    url: str
    asked: list[str]


@pytest.fixture
def server() -> Iterator[Server]:
    """Answers each path with its own name, and /missing with 404."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(404 if self.path == "/missing" else 200)
            self.end_headers()
            self.wfile.write(self.path.encode())

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield Server(f"http://127.0.0.1:{made.server_port}", asked)
    made.shutdown()
    made.server_close()


def pins(folder: Path, *rows: tuple[str, str, str]) -> Path:
    text = "".join(f'[[crd]]\nfile = "{file}"\nurl = "{url}"\nsha256 = "{sha256}"\n' for file, url, sha256 in rows)
    (folder / "pins.toml").write_text(text, encoding="utf-8")
    return folder / "pins.toml"


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def run(pins: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("trainwright")), "crds", str(folder), "--pins", str(pins)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={"no_proxy": "*"})


def test_files_are_fetched_once(tmp_path: Path, server: Server) -> None:
    pinned = pins(
        tmp_path, ("a/one.yaml", f"{server.url}/one", digest("/one")), ("two.yaml", f"{server.url}/two", digest("/two"))
    )
    ended = run(pinned, tmp_path / "crds")
    assert (ended.returncode, ended.stdout) == (0, f"2 of 2 CRDs are in {tmp_path}/crds, 2 of them new\n")
    assert (tmp_path / "crds" / "a" / "one.yaml").read_text() == "/one"
    (tmp_path / "crds" / "two.yaml").write_text("edited")
    ended = run(pinned, tmp_path / "crds")
    assert (ended.returncode, "1 of them new" in ended.stdout) == (0, True)
    assert (tmp_path / "crds" / "two.yaml").read_text() == "/two"
    assert server.asked == ["/one", "/two", "/two"]


def test_another_file_than_the_pinned_one_is_never_written(tmp_path: Path, server: Server) -> None:
    pinned = pins(tmp_path, ("one.yaml", f"{server.url}/one", "0" * 64), ("two.yaml", f"{server.url}/two", digest("/two")))
    ended = run(pinned, tmp_path / "crds")
    assert ended.returncode == 3
    assert f"the digest is {digest('/one')}, and {'0' * 64} is pinned" in ended.stderr
    assert [path.name for path in (tmp_path / "crds").iterdir()] == ["two.yaml"]


def test_a_file_that_is_gone_does_not_stop_the_others(tmp_path: Path, server: Server) -> None:
    pinned = pins(tmp_path, ("one.yaml", f"{server.url}/missing", "0" * 64), ("two.yaml", f"{server.url}/two", digest("/two")))
    ended = run(pinned, tmp_path / "crds")
    assert (ended.returncode, "404" in ended.stderr) == (3, True)
    assert ended.stdout.startswith("1 of 2 CRDs")


def test_without_a_network_it_says_what_to_do_and_asks_once(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        ended = run(pins(tmp_path, ("one.yaml", f"{url}/one", "0" * 64), ("two.yaml", f"{url}/two", "0" * 64)), tmp_path / "crds")
    assert ended.returncode == 3
    assert "Without a network" in ended.stderr
    assert "/two" not in ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.stdout.startswith("0 of 2 CRDs")


@pytest.mark.parametrize("text", ["", "[[crd]]\n", "[[crd]]\nfile = 1\n", "crd = ["])
def test_pins_that_are_none_are_one_message(tmp_path: Path, text: str) -> None:
    (tmp_path / "pins.toml").write_text(text, encoding="utf-8")
    ended = run(tmp_path / "pins.toml", tmp_path / "crds")
    assert (ended.returncode, "Traceback" in ended.stderr) == (2, False)
    assert "does not hold [[crd]] tables" in ended.stderr


def test_they_go_where_validate_looks(tmp_path: Path, server: Server) -> None:
    pinned = pins(tmp_path, ("one.yaml", f"{server.url}/one", digest("/one")))
    command = [str(Path(sys.executable).with_name("trainwright")), "crds", "--pins", str(pinned)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env={"no_proxy": "*"})
    assert (ended.returncode, ended.stdout) == (0, "1 of 1 CRDs are in build/crds, 1 of them new\n")
    assert (tmp_path / "build" / "crds" / "one.yaml").read_text() == "/one"


@pytest.mark.parametrize(
    "row", [("../one.yaml", "https://example.com/one"), ("/one.yaml", "https://example.com/one"), ("one", "file:///one")]
)
def test_a_pin_stays_in_its_folder_and_on_the_web(tmp_path: Path, row: tuple[str, str]) -> None:
    ended = run(pins(tmp_path, (*row, "0" * 64)), tmp_path / "crds")
    assert ended.returncode == 2
    assert "cannot be used" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_pins_are_commits_and_digests() -> None:
    assert len({pin["file"] for pin in PINS}) == len(PINS) == 27
    for pin in PINS:
        assert re.fullmatch(r"https://raw\.githubusercontent\.com/[\w-]+/[\w-]+/[0-9a-f]{40}/[\w./-]+\.yaml", pin["url"])
        assert re.fullmatch(r"[0-9a-f]{64}", pin["sha256"])
        assert Path(pin["file"]).name == Path(pin["url"]).name


if UPSTREAM:

    def test_the_crds_that_the_tests_use_are_the_pinned_ones() -> None:
        for pin in PINS:
            assert hashlib.sha256((Path(UPSTREAM or "") / pin["file"]).read_bytes()).hexdigest() == pin["sha256"], pin["file"]
