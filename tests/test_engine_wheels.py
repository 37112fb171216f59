"""Wheels of engines that are built here: which one is taken from the cache, and what is said where none can be built."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tools.engines.cache import NOTE, VARIABLE, WheelCache, cache_folder
from tools.engines.recipe import RECIPES

BUILD = Path(__file__).resolve().parent.parent / "tools" / "engines" / "build.py"
FACTS = {"python": "cpython-311", "torch": "2.13.0+cpu"}


@pytest.fixture
def built(tmp_path: Path) -> Path:
    wheel = tmp_path / "scratch" / "horovod-0.28.1-cp311-cp311-linux_x86_64.whl"
    wheel.parent.mkdir()
    wheel.write_bytes(b"what the compiler made")
    return wheel


def test_a_wheel_is_found_again_by_the_same_facts_alone(built: Path, tmp_path: Path) -> None:
    cache = WheelCache(tmp_path / "wheels")
    assert cache.find("horovod", FACTS) is None
    kept = cache.keep("horovod", FACTS, built)
    assert kept.name == built.name
    assert kept.read_bytes() == built.read_bytes()
    assert cache.find("horovod", dict(reversed(FACTS.items()))) == kept
    assert cache.find("deepspeed", FACTS) is None
    for name in FACTS:
        assert cache.find("horovod", FACTS | {name: "another"}) is None


@pytest.mark.parametrize("damaged", ["wheel", "note", "no wheel", "no note", "other facts"])
def test_what_is_not_whole_is_built_again(built: Path, tmp_path: Path, damaged: str) -> None:
    cache = WheelCache(tmp_path / "wheels")
    kept = cache.keep("horovod", FACTS, built)
    note = kept.with_name(NOTE)
    match damaged:
        case "wheel":
            kept.write_bytes(b"what the compiler mad")
        case "note":
            note.write_text("{", encoding="utf-8")
        case "no wheel":
            kept.unlink()
        case "no note":
            note.unlink()
        case _:
            note.write_text(note.read_text(encoding="utf-8").replace("2.13.0", "2.12.0"), encoding="utf-8")
    assert cache.find("horovod", FACTS) is None
    assert cache.keep("horovod", FACTS, built) == kept
    assert cache.find("horovod", FACTS) == kept


def test_a_kill_while_a_wheel_is_kept_leaves_none(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(self: Path, target: Path) -> Path:
        raise KeyboardInterrupt

    cache = WheelCache(tmp_path / "wheels")
    monkeypatch.setattr(Path, "rename", killed)
    with pytest.raises(KeyboardInterrupt):
        cache.keep("horovod", FACTS, built)
    monkeypatch.undo()
    assert cache.find("horovod", FACTS) is None


def test_the_cache_is_where_the_user_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "trainwright" / "wheels"


@pytest.mark.parametrize("name", RECIPES)
def test_a_missing_compiler_is_told_with_what_to_install(name: str, tmp_path: Path) -> None:
    environment = os.environ | {"PATH": str(tmp_path), VARIABLE: str(tmp_path / "wheels")}
    ended = subprocess.run(
        [sys.executable, BUILD, name], env=environment, capture_output=True, text=True, check=False, timeout=30
    )
    assert ended.returncode == 1
    assert ended.stdout == ""
    (line,) = ended.stderr.splitlines()
    for program, package in RECIPES[name].programs.items():
        assert program in line.partition("cannot be found")[0]
        assert package in line.partition("apt-get install ")[2]
    assert not (tmp_path / "wheels").exists()
