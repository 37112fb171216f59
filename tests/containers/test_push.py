"""``trainwright images`` and a registry of the reference implementation (Debian's docker-registry), and buildah, which pulls."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.oci import write_archive

from trainwright_trainer.commands.local import free_port

SETTINGS = """
version: 0.1
log: {{level: error}}
storage: {{filesystem: {{rootdirectory: {folder}}}}}
http: {{addr: "{address}"}}
"""


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[str]:
    address = f"127.0.0.1:{free_port()}"
    (tmp_path / "registry.yml").write_text(SETTINGS.format(folder=tmp_path / "registry", address=address))
    with subprocess.Popen(["docker-registry", "serve", str(tmp_path / "registry.yml")]) as serving:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            with suppress(OSError):
                urllib.request.urlopen(f"http://{address}/v2/", timeout=1).close()
                break
            time.sleep(0.1)
        yield address
        serving.terminate()


def test_what_is_pushed_can_be_pulled_by_its_digest(registry: str, tmp_path: Path) -> None:
    digest = write_archive(tmp_path / "image.tar")
    name = f"{registry}/tools/supervisor"
    program = Path(sys.executable).with_name("trainwright")
    command = [str(program), "images", str(tmp_path / "image.tar"), f"{name}:1"]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ended.stdout == f"supervisor:\n  image: {name}@{digest}\n"
    for reference in (digest, "1"):
        request = urllib.request.Request(
            f"http://{registry}/v2/tools/supervisor/manifests/{reference}",
            headers={"Accept": "application/vnd.oci.image.manifest.v1+json"},
        )
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
            assert answer.headers["Docker-Content-Digest"] == digest
