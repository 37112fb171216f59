"""Whatever the volume refuses is one sentence, and what was committed stays."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from trainwright_trainer.checkpoint import CheckpointStore, CommitRecord, StorageError
from trainwright_trainer.checkpoint.storage import REMEDIES, storage_errors
from trainwright_trainer.contract import ExitCode

Save = Callable[..., CommitRecord]
UNSHARE = ["unshare", "--user", "--map-root-user", "--mount"]


def own_mounts() -> bool:
    return bool(shutil.which("unshare")) and subprocess.run([*UNSHARE, "true"], capture_output=True).returncode == 0


@pytest.mark.parametrize("number", REMEDIES)
def test_one_sentence_with_path_and_remedy(number: int) -> None:
    with pytest.raises(StorageError) as caught, storage_errors("write", Path("/checkpoints/x")):
        raise OSError(number, os.strerror(number))
    assert str(caught.value) == f"cannot write /checkpoints/x: {os.strerror(number)}; {REMEDIES[number]}"
    assert caught.value.exit_code is ExitCode.STORAGE


def test_the_path_of_the_error_is_the_exact_one() -> None:
    message = "cannot write /a/b: Unknown thing; check the volume"
    with pytest.raises(StorageError, match=message), storage_errors("write", Path("/a")):
        raise OSError(9999, "Unknown thing", "/a/b")


@pytest.fixture
def small_files_only() -> Iterator[None]:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.usefixtures("small_files_only")
def test_a_file_above_the_size_limit(store: CheckpointStore, save: Save) -> None:
    good = save(1)
    with pytest.raises(StorageError, match="File too large; raise the limit"):
        save(2, files={"model": bytes(200_000)})
    assert os.listdir(store.directory / "step-2.first") == []
    assert store.latest_good() == good


def test_a_file_where_the_directory_should_be(tmp_path: Path) -> None:
    (tmp_path / "lineage").write_text("in the way")
    store = CheckpointStore(tmp_path / "lineage")
    for use in (store.records, store.latest_good, lambda: store.begin(1, "a")):
        with pytest.raises(StorageError, match="lineage"):
            use()


def test_a_file_where_the_draft_should_be(store: CheckpointStore, save: Save) -> None:
    save(1)
    (store.directory / "step-2.first").write_text("in the way")
    with pytest.raises(StorageError, match=r"step-2\.first: Not a directory"):
        save(2)


MORTAL = ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.geteuid() == 0 else ()
"""Permissions hold for root only without these capabilities."""


def test_no_access(tmp_path: Path) -> None:
    found = run_scenario(tmp_path / "volume", "no-access", MORTAL)
    (tmp_path / "volume" / "lineage").chmod(0o700)
    assert "Permission denied; give the pod's user write access" in found["message"]
    assert (found["good"], found["steps"], found["entries"]) == (1, [1], ["commits", "step-1.a"])


def run_scenario(volume: Path, scenario: str, prefix: Sequence[str] = UNSHARE) -> dict[str, Any]:
    volume.mkdir()
    script = Path(__file__).with_name("storage_scenario.py")
    done = subprocess.run(
        [*prefix, sys.executable, str(script), str(volume), scenario], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert isinstance(result, dict)
    return result


needs_mounts = pytest.mark.skipif(not own_mounts(), reason="this machine gives unprivileged users no mount namespace")


@needs_mounts
def test_a_full_volume(tmp_path: Path) -> None:
    found = run_scenario(tmp_path / "volume", "full")
    assert f"{os.strerror(errno.ENOSPC)}; free space on the volume, or grow the claim" in found["message"]
    assert (found["good"], found["later"], found["steps"]) == (1, None, [3, 1])
    assert found["entries"] == ["commits", "step-1.a", "step-3.a"]


@needs_mounts
def test_a_volume_that_becomes_read_only(tmp_path: Path) -> None:
    found = run_scenario(tmp_path / "volume", "read-only")
    assert f"{os.strerror(errno.EROFS)}; mount the checkpoint claim without read_only" in found["message"]
    assert (found["good"], found["steps"], found["entries"]) == (1, [1], ["commits", "step-1.a"])
