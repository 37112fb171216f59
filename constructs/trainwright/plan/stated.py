"""What is stated of the pods of a role: by `roles.all`, by the run for the pods that hold ranks, and by the role itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Generic, NamedTuple, TypeVar

from trainwright.findings.locate import escape
from trainwright.handshake import Role
from trainwright.plan.packages import FOLDER, SOURCE, packages_mount, packages_of
from trainwright.run import Mount, RoleParts, Run
from trainwright.run.roles import ALL

T = TypeVar("T")
Words = Run | RoleParts
"""Both have the fields of ``OF_ALL``."""


class Stated(NamedTuple, Generic[T]):
    """A value, and the pointer of its statement, such as ``run:/roles/launcher/node_affinity``."""

    value: T
    source: str


def words_of(run: Run, role: Role | None) -> Iterator[Stated[Words]]:
    """From the widest to the nearest; the pointers end before a field's name. ``role`` is None for a pod that has none, such as
    Ray's submitter.
    """
    if ALL in run.roles:
        yield Stated(run.roles[ALL], f"run:/roles/{ALL}")
    if role and role.holds_ranks:
        yield Stated(run, "run:")
    if role and role.name in run.roles:
        yield Stated(run.roles[role.name], f"run:/roles/{escape(role.name)}")


def all_words(run: Run) -> Iterator[Stated[Words]]:
    """Those of the run, and of every role that it speaks of."""
    yield Stated(run, "run:")
    for name, parts in run.roles.items():
        yield Stated(parts, f"run:/roles/{escape(name)}")


def merged(run: Run, role: Role | None, field: str, read: Callable[[Words], Mapping[str, T]]) -> dict[str, Stated[T]]:
    """A field that is a mapping, key by key; the nearest statement wins."""
    return {
        key: Stated(value, f"{source}/{field}/{escape(key)}")
        for words, source in words_of(run, role)
        for key, value in read(words).items()
    }


def nearest(run: Run, role: Role | None, field: str, read: Callable[[Words], T | None]) -> Stated[T] | None:
    """A field that is one value; None where nothing is stated."""
    found = [Stated(value, f"{source}/{field}") for words, source in words_of(run, role) if (value := read(words)) is not None]
    return found[-1] if found else None


def mounts_of(run: Run, role: Role, *plans: str | None) -> dict[str, Stated[Mount]]:
    """Path -> what is mounted there. Parameter servers run what the ranks run, so they see what these see.

    Args:
        plans: paths of the run's mounts that the plan itself needs in these pods.
    """
    mounts = merged(run, role, "mounts", lambda words: words.mounts)
    needed = run.mounts if role.works else [path for path in plans if path in run.mounts]
    mounts = {path: Stated(run.mounts[path], rank_mount(run, path)) for path in needed} | mounts
    if role.holds_ranks and packages_of(run):
        mounts |= {FOLDER: Stated(packages_mount(), SOURCE)}
    return dict(sorted(mounts.items()))


def rank_mount(run: Run, path: str) -> str:
    """Where a mount of the pods with ranks is stated."""
    return f"run:{'' if path in run.mounts else f'/roles/{ALL}'}/mounts/{escape(path)}"
