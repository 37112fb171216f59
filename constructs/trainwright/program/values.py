"""What the catalogue says of variables, wherever they are stated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from trainwright.findings import Finding, Where
from trainwright.findings.codes import found, milder
from trainwright.manifest.limits import unexpanded
from trainwright.program.container import Program
from trainwright.variables.secret import looks_secret

if TYPE_CHECKING:
    from trainwright.variables import Entry


def variable_findings(env: Mapping[str, object], where: Callable[[str], Where]) -> Iterator[Finding]:
    """Variables that nothing reads, that cannot hold what they are given, or that are rarely a good idea."""
    if not env:
        return
    from trainwright.variables import Entry, is_made_up, lookup, suggestion  # hundreds of rows, for the runs that set any

    for name, value in env.items():
        entry = lookup(name)
        if isinstance(value, str) and (said := unexpanded(name, value)):
            yield found("TW419", where(name), *said)
        if is_made_up(name):
            if near := suggestion(name):
                yield found("TW412", where(name), f"no library reads {name}", f"did you mean {near}?")
            else:
                fix = "remove it; if a plugin or a program of yours reads it, waive this and say which"
                yield found("TW417", where(name), f"no library that this compiler knows reads {name}", fix)
        elif isinstance(entry, Entry):
            yield from _of_entry(entry, value if isinstance(value, str) else None, where(name))
    yield from _together(env, where)


def _of_entry(entry: Entry, value: str | None, where: Where) -> Iterator[Finding]:
    """At most one finding: what is dead needs no value, and what cannot be read carries no risk. Empty text counts as not set,
    unless the library says otherwise.
    """
    ends = entry.ends(value or "") if entry.dead else value is not None and entry.ends(value)
    said = found if ends else milder
    if value == "" and not entry.dead and not ends:
        return
    if entry.dead:
        yield said("TW407", where, f"{entry.name} {entry.dead}", entry.instead or "remove it")
    elif value is not None and (ends or not entry.values.accepts(value)):
        shown = entry.name if looks_secret(entry.name, value) else f"{entry.name}={value[:80]}"
        then = "the program ends" if ends else "it goes on with another value, or with its default"
        allowed = entry.must if ends else entry.values
        yield said("TW413", where, f"{entry.library.value} cannot read {shown}: {then}", f"allowed: {allowed}")
    elif entry.deprecated:
        yield found("TW408", where, f"{entry.name} {entry.deprecated}", entry.instead or "remove it")
    elif entry.risk and entry.risk.applies(value):
        fix = entry.instead or "remove it, or waive this with the measurement that shows that you need it"
        yield found("TW408", where, f"{entry.name} {entry.risk.reason}", fix)


def _together(env: Mapping[str, object], where: Callable[[str], Where]) -> Iterator[Finding]:
    """Problems that show only in two variables together, or in the form of a legal value."""
    hca = env.get("NCCL_IB_HCA")
    if isinstance(hca, str) and hca and not hca.startswith(("=", "^=")):
        word = "leaves out" if hca.startswith("^") else "matches"
        exact = "^=mlx5_1,mlx5_4" if hca.startswith("^") else "=mlx5_0,mlx5_1"
        message = f"NCCL_IB_HCA={hca} {word} every adapter whose name starts with it, including storage adapters"
        fix = f"write exact names, as in {exact!r}; fabric.hca of the pool, in the cluster profile, is the field for them"
        yield found("TW408", where("NCCL_IB_HCA"), message, fix)
    if "NCCL_DEBUG_SUBSYS" in env and str(env.get("NCCL_DEBUG")).upper() not in ("INFO", "TRACE"):
        message = "NCCL_DEBUG_SUBSYS has no effect without NCCL_DEBUG=INFO"
        yield found("TW408", where("NCCL_DEBUG_SUBSYS"), message, "set NCCL_DEBUG to INFO, or remove it")
    threads, sockets = (str(env.get(name) or 1) for name in ("NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD"))
    if threads.isdecimal() and sockets.isdecimal() and int(threads) * int(sockets) > 64:
        message = f"NCCL_SOCKET_NTHREADS x NCCL_NSOCKS_PERTHREAD is {int(threads) * int(sockets)}"
        message += ": NCCL takes fewer sockets"  # src/transport/net_socket.cc
        yield milder("TW413", where("NCCL_NSOCKS_PERTHREAD"), message, "allowed: at most 64 (NCCL user guide)")


def values_can_be_read(program: Program) -> Iterator[Finding]:
    """Of a container that no run states, only what a library cannot read: the rest is a matter of taste, or of the cluster."""
    if program.judged:
        return
    for name, value, place in program.stated():
        said = variable_findings({name: value}, {name: program.where(place)}.__getitem__)
        yield from (one for one in said if one.code == "TW413")


RULES = (values_can_be_read,)
