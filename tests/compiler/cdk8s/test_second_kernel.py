"""A second process that writes files beside this one: same bytes, and no file lost whatever becomes of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.compiler.projects import files

from trainwright.cdk8s import second_kernel, write_files, writer

SHARED = 40
"""Files: more than the second process takes at a time."""

Project = dict[str, list[dict[str, Any]]]


def project(count: int = SHARED) -> Project:
    return {f"c/n/runs/r{number}.k8s.yaml": [thing(number)] for number in range(count)}


def thing(number: int) -> dict[str, Any]:
    text = "".join(f"line {line} of {number}\n" for line in range(1000))  # so that one chunk is more than a pipe holds
    data = {"z": number, "a": 2e-5, "text": text, "yes": "no", "list": [1, [], {}, "ß"]}
    return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": f"t{number}"}, "data": data}


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Makes every write use a second process; the paths that were handed to it."""
    take, paths = second_kernel._take, list[str]()

    def noted(work: Any) -> list[Any]:
        chunk = take(work)
        paths.extend(path for path, _ in chunk)
        return chunk

    monkeypatch.setattr(second_kernel, "_take", noted)
    monkeypatch.setattr(writer, "pays_off", lambda count: True)
    return paths


def one_kernel(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    with monkeypatch.context() as patch:
        patch.setattr(writer, "pays_off", lambda count: False)
        write_files(project(), folder)
    return files(folder)


def test_two_kernels_write_the_same_bytes(taken: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = one_kernel(tmp_path / "one", monkeypatch)
    assert not taken
    write_files(project(), tmp_path / "two")
    assert files(tmp_path / "two") == alone
    assert len(alone) == SHARED
    assert len(taken) >= second_kernel.CHUNK


@pytest.mark.parametrize("python", ["/bin/false", "/bin/cat", "/nowhere/python"])
def test_without_a_second_process_every_file_is_written_here(
    python: str, taken: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = one_kernel(tmp_path / "one", monkeypatch)
    monkeypatch.setattr(sys, "executable", python)
    write_files(project(), tmp_path / "two")
    assert files(tmp_path / "two") == alone


@pytest.mark.parametrize("number", [0, SHARED - 1])
def test_a_disk_that_refuses_is_named_whichever_process_meets_it(number: int, taken: list[str], tmp_path: Path) -> None:
    (tmp_path / f"c/n/runs/r{number}.k8s.yaml").mkdir(parents=True)
    with pytest.raises(OSError, match=rf"cdk8s could not write to .*/c/n/runs/r{number}\.k8s\.yaml: .*EISDIR"):
        write_files(project(), tmp_path)


def test_a_small_project_and_a_single_cpu_stay_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1}, raising=False)
    assert second_kernel.pays_off(second_kernel.FEWEST)
    assert not second_kernel.pays_off(second_kernel.FEWEST - 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0}, raising=False)
    assert not second_kernel.pays_off(10_000)


def test_the_second_process_ends_with_the_one_that_started_it(tmp_path: Path) -> None:
    path = tmp_path / "a.k8s.yaml"
    process = subprocess.Popen([sys.executable, "-P", second_kernel.__file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps([[str(path), [thing(1)]]]).encode() + b"\n")
    process.stdin.flush()
    assert process.stdout.readline() == second_kernel.WRITTEN
    assert path.exists()
    process.stdin.close()  # as the kernel does for a process that is killed
    assert process.stdout.read() == b""
    assert process.wait(timeout=30) == 0
    process.stdout.close()
