"""Scratch projects: a real folder, a real git repository, and the real command line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.compiler.command_line import started
from tests.compiler.compiling import TODAY

from trainwright.project.build import build_project
from trainwright.project.built import Build
from trainwright.project.load import Project, load_sources
from trainwright.project.synth import Written, synth

ROOT = Path(__file__).resolve().parents[2]
TRAINWRIGHT = Path(sys.executable).with_name("trainwright")


@dataclass(frozen=True, slots=True)
class Scratch:
    """A copy of this repository's charts and dist/, committed."""

    root: Path

    @property
    def project(self) -> Project:
        return Project(self.root)

    def path(self, name: str) -> Path:
        return self.root / name

    def read(self, name: str) -> str:
        return self.path(name).read_text(encoding="utf-8")

    def write(self, name: str, text: str) -> None:
        self.path(name).parent.mkdir(parents=True, exist_ok=True)
        self.path(name).write_text(text, encoding="utf-8")

    def edit(self, name: str, before: str, after: str) -> None:
        """Replace a text that stands in the file exactly once."""
        text = self.read(name)
        assert text.count(before) == 1, f"{before!r} is {text.count(before)} times in {name}"
        self.write(name, text.replace(before, after))

    def run(
        self, *arguments: str, environment: dict[str, str] | None = None, folder: str = "."
    ) -> subprocess.CompletedProcess[str]:
        """The command line as a user starts it; from nothing where an environment is stated."""
        if environment is None:
            return started(arguments, self.root / folder)
        return subprocess.run(
            [TRAINWRIGHT, *arguments],
            cwd=self.root / folder,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )

    def build(self) -> Build:
        return build_project(load_sources(self.project), TODAY)

    def synth(self, *accepted: str) -> Written:
        """What `synth` and `roll` do, in this process: a session starts Node once."""
        from trainwright.cdk8s import write_files

        return synth(self.project, self.build(), write_files, accepted)

    def git(self, *arguments: str) -> str:
        """Standard output of git, for its own errors are ours too."""
        known = [
            "-c",
            "user.name=test",
            "-c",
            "user.email=test@example.com",
            "-c",
            "commit.gpgsign=false",
            "-c",
            "init.defaultBranch=main",
        ]
        ended = subprocess.run(["git", *known, *arguments], cwd=self.root, capture_output=True, text=True, check=True)
        return ended.stdout

    def dist(self) -> dict[str, bytes]:
        """Every file below dist/ with its bytes."""
        return files(self.root / "dist")


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def scratch(folder: Path) -> Scratch:
    """A fresh copy. Python's own caches stay behind."""
    for name in ("charts", "dist"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    made = Scratch(folder)
    made.git("init", "--quiet")
    made.git("add", "--all")
    made.git("commit", "--quiet", "--message", "as copied")
    return made


def assert_ended(ended: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    """The exit code, the words on standard error, and no traceback anywhere."""
    said = ended.stdout + ended.stderr
    assert "Traceback" not in said
    assert ended.returncode == code, said
    for word in words:
        assert word in ended.stderr
