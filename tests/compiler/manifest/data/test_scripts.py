"""The scripts of both containers, as the manifests hold them, with the real rclone and a real S3 server."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.compiler.manifest.data.prepared import fetch_job, own_job, pod_of, prepared
from tests.compiler.objects import environment

from trainwright.command.references import expand

BIN = Path(sys.executable).parent
RCLONE = BIN / "rclone"
ACCESS, SECRET = "reader", "a-secret-that-no-log-holds"


def until(condition: Callable[[], object], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)


@dataclass
class Store:
    """rclone as an S3 server; a folder below the root is a bucket."""

    root: Path
    endpoint: str = ""
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        log = self.root.with_suffix(".log")
        key = f"{ACCESS},{SECRET}"
        address = ("--addr", "127.0.0.1:0")
        command = [str(RCLONE), "serve", "s3", str(self.root), *address, "--auth-key", key, "--config", "/dev/null"]
        with log.open("wb") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=output)
        until(lambda: re.search(r"http://127\.0\.0\.1:[0-9]+", log.read_text()))
        found = re.search(r"http://127\.0\.0\.1:[0-9]+", log.read_text())
        assert found
        self.endpoint = found[0]

    def stop(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None


@dataclass
class Fetching:
    """The container of the Job on this machine: its own command and environment, its volume a folder."""

    store: Store
    place: Path
    changes: dict[str, str] = field(default_factory=dict)
    prefix: str = "digits"

    @property
    def volume(self) -> Path:
        return self.place / "volume"

    @property
    def folder(self) -> Path:
        """Where the data comes to lie."""
        return Path(self.environment()["FOLDER"])

    @property
    def marker(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}.complete")

    def container(self) -> dict[str, Any]:
        run = prepared(source=f"s3://example-datasets/{self.prefix}", endpoint=self.store.endpoint)
        container: dict[str, Any] = pod_of(fetch_job(run))["containers"][0]
        return container

    def environment(self) -> dict[str, str]:
        secrets = {"id": ACCESS, "secret": SECRET}
        given = {
            name: secrets[value["secretKeyRef"]["key"]] if isinstance(value, dict) else expand(value, {})
            for name, value in environment(self.container()).items()
        }
        given["FOLDER"] = given["FOLDER"].replace("/volume", str(self.volume), 1)
        scratch = self.place / "scratch"
        scratch.mkdir(parents=True, exist_ok=True)
        there = {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "HOME": str(scratch), "TMPDIR": str(scratch)}
        return given | there | self.changes

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [expand(word, {}) for word in self.container()["command"]], env=self.environment(), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def run(self) -> tuple[int, str]:
        """Exit code, and everything that was printed."""
        process = self.start()
        printed, _ = process.communicate(timeout=60)
        assert SECRET not in printed
        return process.returncode, printed

    def contents(self) -> dict[str, bytes]:
        return contents(self.folder)

    def copied(self) -> list[Path]:
        """Files under their final name."""
        return list(self.folder.rglob("*.bin"))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    data = tmp_path / "store" / "example-datasets" / "digits"
    for number in range(6):
        path = data / f"class {number % 2}" / f"{number}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(200_000))
    store = Store(tmp_path / "store")
    store.start()
    yield store
    store.stop()


@pytest.fixture
def fetching(store: Store, tmp_path: Path) -> Fetching:
    return Fetching(store, tmp_path / "pod")


def source(store: Store) -> Path:
    return store.root / "example-datasets" / "digits"


def test_the_data_is_there_as_a_whole_and_then_the_marker(fetching: Fetching) -> None:
    code, printed = fetching.run()
    assert (code, printed.splitlines()[-1]) == (0, "s3://example-datasets/digits is complete.")
    assert fetching.contents() == contents(source(fetching.store))
    assert fetching.marker.read_text().startswith("s3://example-datasets/digits\ncomplete since 2")
    assert sorted(path.name for path in fetching.folder.parent.iterdir()) == sorted([fetching.folder.name, fetching.marker.name])


def test_a_second_run_finds_the_marker_and_asks_nobody(fetching: Fetching) -> None:
    assert fetching.run()[0] == 0
    fetching.store.stop()
    code, printed = fetching.run()
    assert code == 0
    assert "s3://example-datasets/digits is there already" in printed


def test_a_pod_that_is_ended_leaves_no_marker_and_the_next_one_goes_on(fetching: Fetching) -> None:
    fetching.changes = {"RCLONE_BWLIMIT": "200k", "RCLONE_TRANSFERS": "1", "RCLONE_BUFFER_SIZE": "0"}
    process = fetching.start()
    until(fetching.copied)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 143
    assert not fetching.marker.exists()
    kept = {path: path.stat().st_ino for path in fetching.copied()}
    assert 0 < len(kept) < 6

    (fetching.folder / "half.bin.1234abcd.partial").write_bytes(b"what a killed pod leaves")
    fetching.changes = {}
    assert fetching.run()[0] == 0
    assert fetching.contents() == contents(source(fetching.store))
    assert {path: path.stat().st_ino for path in kept} == kept


def test_a_pod_that_is_killed_with_all_it_started_leaves_no_marker(fetching: Fetching) -> None:
    fetching.changes = {"RCLONE_BWLIMIT": "100k"}
    command = [expand(word, {}) for word in fetching.container()["command"]]
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, env=fetching.environment(), start_new_session=True, stdout=quiet, stderr=quiet)
    until(lambda: fetching.folder.is_dir() and any(fetching.folder.rglob("*")))
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not fetching.marker.exists()
    fetching.changes = {}
    assert fetching.run()[0] == 0
    assert fetching.contents() == contents(source(fetching.store))


def test_a_file_that_only_looks_right_is_copied_again(fetching: Fetching) -> None:
    assert fetching.run()[0] == 0
    fetching.marker.unlink()
    damaged = next(fetching.folder.rglob("*.bin"))
    times = damaged.stat()
    damaged.write_bytes(os.urandom(times.st_size))
    os.utime(damaged, ns=(times.st_atime_ns, times.st_mtime_ns))
    code, printed = fetching.run()
    assert code == 0
    assert "What differs is copied again" in printed
    assert fetching.contents() == contents(source(fetching.store))


def test_two_pods_at_once_end_with_the_same_data(fetching: Fetching) -> None:
    other = Fetching(fetching.store, fetching.place.with_name("other"))
    other.changes = {"FOLDER": str(fetching.folder)}
    pods = [fetching.start(), other.start()]
    for pod in pods:
        pod.communicate(timeout=60)
    assert 0 in [pod.returncode for pod in pods]
    assert fetching.run()[0] == 0
    assert fetching.contents() == contents(source(fetching.store))


@pytest.mark.parametrize("wrong", ["ACCESS_KEY_ID", "SECRET_ACCESS_KEY"])
def test_wrong_credentials(fetching: Fetching, wrong: str) -> None:
    fetching.changes = {f"RCLONE_CONFIG_STORE_{wrong}": "stranger"}
    code, printed = fetching.run()
    assert code == 1
    assert printed.splitlines()[-1] == (
        "The object store does not let the keys in Secret object-store read s3://example-datasets/digits: "
        "check them, and what they may read."
    )
    assert not fetching.marker.exists()


def test_nothing_at_the_prefix(fetching: Fetching) -> None:
    fetching.prefix = "digts"
    code, printed = fetching.run()
    assert code == 1
    assert printed.splitlines()[-1] == "There is nothing at s3://example-datasets/digts: check the bucket and the prefix."
    assert not fetching.marker.exists()


def test_no_such_bucket(fetching: Fetching) -> None:
    fetching.changes = {"SOURCE": "store:no-such-bucket/digits", "ORIGIN": "s3://no-such-bucket/digits"}
    code, printed = fetching.run()
    assert code == 1
    assert printed.splitlines()[-1] == "There is nothing at s3://no-such-bucket/digits: check the bucket and the prefix."


def test_a_store_that_does_not_answer(fetching: Fetching) -> None:
    fetching.environment()  # the store's address, while it has one
    fetching.store.stop()
    fetching.changes = {"RCLONE_LOW_LEVEL_RETRIES": "1"}
    code, printed = fetching.run()
    assert (code, printed.splitlines()[-1]) == (1, "s3://example-datasets/digits cannot be read: see the line above.")
    assert "connection refused" in printed


def test_a_volume_that_cannot_be_written(fetching: Fetching) -> None:
    fetching.place.mkdir(parents=True, exist_ok=True)
    fetching.volume.write_text("a file where the folder should be")
    code, printed = fetching.run()
    assert code == 1
    assert "The volume cannot be written to" in printed


def test_a_copy_that_fails_leaves_no_marker(fetching: Fetching) -> None:
    fetching.changes = {"RCLONE_MAX_TRANSFER": "300k", "RCLONE_RETRIES": "1", "RCLONE_TRANSFERS": "1"}
    code, printed = fetching.run()
    assert code == 1
    assert printed.splitlines()[-1].startswith("The copy of s3://example-datasets/digits is not complete")
    assert not fetching.marker.exists()


@dataclass
class Waiting:
    """The container that waits, with the claim in a folder of this machine."""

    place: Path
    budget: str

    @property
    def marker(self) -> Path:
        return self.place / "digits" / self._words()[-1].rpartition("/")[2]

    def start(self) -> subprocess.Popen[str]:
        *words, _ = self._words()
        told = environment(self._container()) | {"PATH": os.environ["PATH"], "BUDGET_SECONDS": self.budget}
        return subprocess.Popen(
            [*words, str(self.marker)], env=told, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    def _words(self) -> list[str]:
        return [expand(word, {}) for word in (*self._container()["command"], *self._container()["args"])]

    def _container(self) -> dict[str, Any]:
        [container] = pod_of(own_job(prepared()))["initContainers"]
        loaded: dict[str, Any] = container
        return loaded


def test_waiting_ends_at_once_where_the_marker_is(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path, "0")
    waiting.marker.parent.mkdir()
    waiting.marker.touch()
    process = waiting.start()
    assert process.communicate(timeout=60)[0] == ""
    assert process.returncode == 0


def test_waiting_says_what_is_missing_when_its_time_is_over(tmp_path: Path) -> None:
    process = Waiting(tmp_path, "0").start()
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert printed.splitlines() == [
        f"The data is not complete after 0 s of waiting for {Waiting(tmp_path, '0').marker}.",
        "Look at the Jobs that fetch it: kubectl describe jobs --namespace training "
        "--selector app.kubernetes.io/component=foundation",
    ]


@pytest.mark.slow
def test_waiting_ends_with_the_marker(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path, "60")
    process = waiting.start()
    assert process.stdout
    assert "waiting for" in process.stdout.readline()
    waiting.marker.parent.mkdir()
    waiting.marker.touch()
    assert process.wait(timeout=60) == 0


def test_kubernetes_leaves_the_scripts_as_they_are() -> None:
    run = prepared()
    for container in (pod_of(fetch_job(run))["containers"][0], pod_of(own_job(run))["initContainers"][0]):
        for word in container["command"]:
            assert expand(word, environment(container)) == word
