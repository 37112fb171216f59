"""One side of a comparison: the files of a project in a folder, or in a revision of its git repository.

Only records and ``dist/`` are read, as bytes. Of a revision nothing is checked out, compiled or imported.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

READ = ("charts/lock", "dist")
"""Folders of a project that hold what a review reads."""
APPLIED = (".yaml", ".yml", ".json", ".jsonnet")
"""Ends of the files that Argo CD applies (``manifestFile`` in its reposerver/repository/repository.go), records among them."""
MAIN = ("origin/main", "main", "origin/master", "master")
"""Branches that a change is compared with; the first that exists."""
PATIENCE = 120.0
"""Seconds that git may take."""


class SideError(ValueError):
    """There is no such side. The message says what to do; show it without a traceback."""


class SilentError(SideError):
    """Git failed without a word, as it does where what it was asked for is not there."""


@dataclass(frozen=True, slots=True)
class Side:
    """Files by their path in the project, with forward slashes."""

    shown: str
    """What people call it: a short revision, or a folder."""
    marks: Mapping[str, str]
    """Path -> the name that git gives to the file's content."""
    root: Path
    """The project's folder; of a revision, that of the repository's working tree."""
    revision: str | None = None
    _read: dict[str, bytes] = field(default_factory=dict)

    def read(self, paths: Iterable[str]) -> dict[str, bytes]:
        """Contents of some files; a path that is not there is left out."""
        wanted = [path for path in paths if path in self.marks]
        missing = [path for path in wanted if path not in self._read]
        if missing and self.revision is not None:
            self._read.update(zip(missing, _blobs(self.root, [self.marks[path] for path in missing]), strict=True))
        elif missing:
            self._read.update({path: (self.root / path).read_bytes() for path in missing})
        return {path: self._read[path] for path in wanted}

    def text(self, path: str) -> str | None:
        """One file as text; None where it is not there."""
        data = self.read([path]).get(path)
        return None if data is None else data.decode("utf-8", "replace")


def folder_side(root: Path, shown: str) -> Side:
    """Of a folder that has ``charts/``, as its files are now.

    Raises:
        SideError: where it holds no project.
    """
    if not (root / "charts").is_dir():
        raise SideError(f"{shown} is neither a revision of this repository nor a folder with charts/")
    paths = [path for name in READ for path in sorted((root / name).rglob("*")) if path.name.endswith(APPLIED)]
    files = [path for path in paths if path.is_file() and not path.is_symlink()]
    contents = {path.relative_to(root).as_posix(): path.read_bytes() for path in files}
    return Side(shown, {path: mark(data) for path, data in contents.items()}, root, None, contents)


def git_side(root: Path, revision: str) -> Side:
    """Of a revision of the repository that the project lies in.

    Raises:
        SideError: where there is no such revision.
        OSError: where git cannot be started.
    """
    commit = commit_of(root, revision)
    if commit is None:
        raise SideError(f"there is no revision {revision}; in CI, fetch the history (`fetch-depth: 0`)")
    prefix = git(root, "rev-parse", "--show-prefix").decode().rstrip("\n")
    listed = git(root, "ls-tree", "-r", "-z", "--full-tree", commit, "--", *(f"{prefix}{name}" for name in READ))
    marks = {}
    for line in listed.decode("utf-8", "replace").split("\0"):
        head, _, path = line.partition("\t")
        if head.startswith("100") and path.endswith(APPLIED):  # files; links and submodules are not ours
            marks[path.removeprefix(prefix)] = head.split()[2]
    return Side(revision if len(revision) < 40 else revision[:12], marks, root, commit)


def commit_of(root: Path, revision: str) -> str | None:
    """The commit that a revision names, or None.

    Raises:
        SideError: with git's words, where it cannot say: the folder is in no repository, or in one of another user.
    """
    try:
        return git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}").decode().strip()
    except SilentError:
        return None


def merge_base(root: Path) -> str:
    """The commit at which the checked-out branch left the main one.

    Raises:
        SideError: where the project is in no repository, or has no main branch, or too little of its history is there.
    """
    if commit_of(root, "HEAD") is None:
        raise SideError(f"{root} has no commit to compare with: commit it to git first, or name two folders")
    for branch in MAIN:
        if commit_of(root, branch):
            try:
                return git(root, "merge-base", branch, "HEAD").decode().strip()
            except SilentError as error:
                message = f"there is no common commit with {branch}; in CI, fetch the history (`fetch-depth: 0`)"
                raise SideError(message) from error
    raise SideError(f"there is no branch {' or '.join(MAIN)} to compare with: name a revision")


def git(root: Path, *arguments: str, given: bytes = b"") -> bytes:
    """Standard output of git.

    Raises:
        SideError: with its words, where it fails.
        SilentError: where it fails and has none.
    """
    program = shutil.which("git")
    if program is None:
        raise OSError("git is needed to compare revisions, and is not installed: name two folders")
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        ended = subprocess.run(
            [program, *arguments], cwd=root, env=environment, input=given, capture_output=True, check=False, timeout=PATIENCE
        )
    except subprocess.TimeoutExpired as error:
        raise OSError(f"git {arguments[0]} gave no answer within {PATIENCE:g} s") from error
    if ended.returncode:
        said = " ".join(ended.stderr.decode("utf-8", "replace").split())
        raise SideError(f"git {arguments[0]}: {said}") if said else SilentError(f"git {arguments[0]} failed without a word")
    return ended.stdout


def _blobs(root: Path, names: list[str]) -> list[bytes]:
    """Contents by their names, from one git."""
    answer = git(root, "cat-file", "--batch", given="".join(f"{name}\n" for name in names).encode())
    contents, at = [], 0
    for name in names:
        end = answer.index(b"\n", at)
        head = answer[at:end].split()
        if len(head) != 3:
            raise SideError(f"git cat-file: {name} is missing from the repository: fetch the history")
        size = int(head[2])
        contents.append(answer[end + 1:end + 1 + size])
        at = end + size + 2
    return contents


def mark(data: bytes) -> str:
    """As git names a file's content, in a repository of sha1."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
