"""A proposal made to compile: what it may not say goes, and so does what the default would give."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainwright.cluster import Cluster
from trainwright.command.launchers import TORCH_LAUNCHERS, launches
from trainwright.command.reading import read
from trainwright.compile import CompiledRun, compile_run
from trainwright.findings import CompileError, Finding, Severity
from trainwright.findings.locate import Locator, at, escape, tokens
from trainwright.importing.choices import choices
from trainwright.importing.commands import rewritten, values_of
from trainwright.importing.emitted import ONLY_ORDER, Aim
from trainwright.importing.propose import WISHES, Proposal
from trainwright.importing.words import Data, Words, leaves, removed
from trainwright.reading import validate_data
from trainwright.run import Run
from trainwright.topology import LAUNCHER_VARIABLES

RUN, PROFILE = "run", "profile"
"""What the files of a run that nobody has written yet are called in findings."""
_NEEDED = frozenset({"run", "team", "namespace", "cluster", "target", "image", "topology", "workload"})
_MOST = 60
"""Rounds of repair: each takes out at least one key."""


@dataclass
class Fitted:
    """A run that compiles."""

    data: Data
    compiled: CompiledRun
    dropped: list[tuple[str, Any, str]] = field(default_factory=list)
    """Pointer in the run, the value that it may not have there, and why."""


class Compiler:
    """Compiles data of a run on one profile, with the defaults of the project beneath it."""

    def __init__(self, cluster: Cluster, beneath: Callable[[Data], Data] = lambda data: data) -> None:
        self.cluster = cluster
        self._beneath = beneath

    def __call__(self, data: Data) -> CompiledRun:
        """Raises :class:`CompileError` with pointers below ``RUN`` and ``PROFILE``."""
        run = validate_data(Run, self._beneath(data), RUN, {})
        return compile_run(run, self.cluster, Locator(run_file=RUN, cluster_file=PROFILE))


def fit(proposal: Proposal, compiler: Compiler) -> Fitted:
    """The first topology that compiles, with as much of the proposal as it may have.

    Raises:
        CompileError: of the likeliest topology, if none compiles.
    """
    first: CompileError | None = None
    best: Fitted | None = None
    aim = proposal.aim
    for topology in proposal.topologies:
        data = copy.deepcopy(proposal.words.data)
        data["topology"] = {**topology, **data["topology"]}
        try:
            fitted = _repaired(data, compiler)
        except CompileError as error:
            first = first or error
            continue
        if best is None or _lost(fitted, aim) < _lost(best, aim):
            best = fitted
        if not any(_lost(best, aim)):
            break
    if best is None:
        raise first or CompileError([])
    if aim is None:
        return _shortest(_told(best, compiler), compiler, _emitting_the_same)
    return _shortest_near(nearest(best, compiler, aim), compiler, aim)


def _shortest_near(fitted: Fitted, compiler: Compiler, aim: Aim) -> Fitted:
    """The shortest run as near as this one. Two variables may only go together, or one after the other, since each has a place:
    so the order is looked at in the end, and where that fails at each step.
    """
    shortest = _shortest(fitted, compiler, aim.as_near_but_for_order, aim.said)
    if aim.distance(shortest.compiled) <= aim.distance(fitted.compiled):
        return shortest
    while (shortest := _shortest(fitted, compiler, aim.as_near, aim.said)).data != fitted.data:
        fitted = shortest
    return fitted


def _told(fitted: Fitted, compiler: Compiler) -> Fitted:
    """With the variables of launchers where a program without one was told them, by values that the plan has otherwise."""
    words = [*(fitted.data["workload"].get("command") or ()), *(fitted.data["workload"].get("args") or ())]
    taken = {pointer.removeprefix("/env/") for pointer, _, _ in fitted.dropped}
    started = launches(read(tuple(words))) if words else ()
    if taken.isdisjoint(LAUNCHER_VARIABLES) or any(one.name in TORCH_LAUNCHERS for one in started):
        return fitted
    data = {**fitted.data, "workload": {**fitted.data["workload"], "launcher_variables": True}}
    dropped = list(fitted.dropped)
    for name in [one for one in LAUNCHER_VARIABLES if one in data.get("env", {})]:
        dropped.append((f"/env/{name}", data["env"][name], f"{name} is set by the plan"))
        data = removed(data, ["env", name])
    try:
        return Fitted(data, compiler(data), dropped)
    except CompileError:
        return fitted


def _emitting_the_same(before: CompiledRun) -> Callable[[CompiledRun], bool]:
    wanted = _objects(before)
    return lambda compiled: bool(_objects(compiled) == wanted)


def nearest(fitted: Fitted, compiler: Compiler, aim: Aim) -> Fitted:
    """With each choice that brings its objects nearer to those that it was emitted as: they do not say all that leads to them."""
    distance, changed = aim.distance(fitted.compiled), True
    while changed and distance > ONLY_ORDER:
        changed = False
        for pointer, value in choices(compiler.cluster, fitted.data):
            if distance <= ONLY_ORDER:
                break
            words = Words(copy.deepcopy(fitted.data))
            words.say(pointer, value)
            try:
                compiled = compiler(words.data)
            except CompileError:
                continue
            if (now := aim.distance(compiled)) < distance:
                fitted, distance, changed = Fitted(words.data, compiled, fitted.dropped), now, True
    return fitted


def _lost(fitted: Fitted, aim: Aim | None) -> tuple[int, ...]:
    """Parts that no topology should cost: files, roles, mounts, containers. Of a run that was emitted, what differs."""
    if aim is not None:
        return aim.distance(fitted.compiled)
    return (sum(pointer.split("/")[1] in _PARTS and pointer.count("/") == 2 for pointer, _, _ in fitted.dropped),)


_OF_ITS_RUNTIME = frozenset({"TW335", "TW401"})
"""That a run cannot be on the runtime that it names, or cannot say there what it says."""


def _is_fetched(finding: Finding) -> bool:
    """Whether it is about an initializer, without which the run can be on its runtime all the same."""
    return finding.where.file == RUN and finding.where.pointer.startswith("/initializer/")


_PARTS = frozenset({"files", "roles", "mounts", "containers"})


def _repaired(data: Data, compiler: Compiler) -> Fitted:
    """Without the keys that a finding is about, one round after the other."""
    dropped: list[tuple[str, Any, str]] = []
    for _ in range(_MOST):
        try:
            return Fitted(data, compiler(data), dropped)
        except CompileError as error:
            errors = [one for one in error.findings if one.severity is Severity.ERROR]
            if "runtime" in data and any(one.code in _OF_ITS_RUNTIME and not _is_fetched(one) for one in errors):
                raise
            if (changed := _with_commands(data, errors)) is not None:
                data = changed
                continue
            places: dict[str, Finding] = {}
            for one in errors:
                if place := _removable(data, one):
                    places.setdefault(place, one)
            if not places:
                raise
            for place, one in places.items():
                value = at(data, place)
                if value is None and at(data, place.rpartition("/")[0]) is None:
                    continue  # what it was in has gone
                dropped.append((place, value, one.message))
            for place in sorted(places, key=_from_the_end, reverse=True):
                if at(data, place.rpartition("/")[0]) is not None:
                    data = removed(data, tokens(place))
    raise CompileError([])


def _with_commands(data: Data, errors: Sequence[Finding]) -> Data | None:
    """The run with commands that say no more what the plan says otherwise; None where no error is about that."""
    changed = None
    for owner in ("/workload", *(f"/roles/{role}" for role in data.get("roles", {}))):
        for key in ("command", "args"):
            here = [one for one in errors if one.where.file == RUN and one.where.pointer.startswith(f"{owner}/")]
            words = at(data, f"{owner}/{key}")
            if here and isinstance(words, list) and (told := rewritten(words, here, values_of(data["topology"]))):
                changed = copy.deepcopy(data) if changed is None else changed
                at(changed, owner)[key] = told
    return changed


def _from_the_end(pointer: str) -> list[tuple[int, str]]:
    return [(int(one), "") if one.isdigit() else (0, one) for one in tokens(pointer)]


def _removable(data: Data, finding: Finding) -> str | None:
    """The nearest key above a finding that is there, and that a run can do without."""
    if finding.where.file != RUN:
        return None
    way = tokens(finding.where.pointer)
    while way and (at(data, _pointer(way)) is None or _is_needed(way)):
        way = way[:-1]
    return _pointer(way) if way else None


def _is_needed(way: Sequence[str]) -> bool:
    if way[0] == "topology":
        return len(way) == 1 or way[1] in ("kind", "nodes", "gpus_per_node", "engine")
    if way[0] == "workload":
        return len(way) == 1 or way[1] in ("kind", "command", "args")
    if way[0] == "containers":
        return len(way) > 2
    if way[0] in WISHES:
        return len(way) > 3
    if way[0] == "roles" and len(way) > 2 and way[2] in WISHES:
        return len(way) > 5
    if way[0] == "roles":
        return len(way) > 2 and way[2] in ("pods", "command", "args")
    return way[0] in _NEEDED


def _pointer(way: Sequence[str]) -> str:
    return "".join(f"/{escape(token)}" for token in way)


AsGood = Callable[[CompiledRun], Callable[[CompiledRun], bool]]
"""Of what was there before: whether what a shorter run compiles to is as good."""


def _shortest(fitted: Fitted, compiler: Compiler, as_good: AsGood, said: Collection[str] = ()) -> Fitted:
    """Without what the default would give: each key in turn, as long as the objects of the shorter run are as good. What a
    specification ``said`` is no default.
    """
    is_as_good = as_good(fitted.compiled)
    for parts in _parts(fitted.data):
        waiting = [[one for one in parts if one.split("/")[1] not in said]]
        while waiting:
            some = waiting.pop()
            shorter = _removed(fitted.data, some)
            if shorter == fitted.data:
                continue
            try:
                compiled = compiler(shorter)
            except CompileError:
                compiled = None
            if compiled is not None and is_as_good(compiled):
                fitted, is_as_good = Fitted(shorter, compiled, fitted.dropped), as_good(compiled)
            elif len(some) > 1:  # all at once is seldom refused by more than one of them
                waiting += [some[len(some) // 2 :], some[: len(some) // 2]]
    return fitted


def _removed(data: Data, pointers: Sequence[str]) -> Data:
    """Without what is at each of the pointers, where it is there."""
    for pointer in pointers:
        if at(data, pointer) is not None:
            data = removed(data, tokens(pointer))
    return data


def _parts(data: Data) -> Iterator[list[str]]:
    """What may go, together and then one by one: whole parts before their keys, so that little is compiled for much that goes."""
    for role, parts in data.get("roles", {}).items():
        yield [f"/roles/{role}"]
        yield [f"/roles/{role}/{key}" for key in parts]
        yield [f"/roles/{role}{pointer}" for pointer, _ in leaves(parts) if pointer.count("/") > 1]
    yield [f"/{key}" for key in data if key not in _NEEDED and key != "roles"]
    below = [pointer for pointer, _ in leaves(data) if pointer.count("/") > 1 and not pointer.startswith(("/roles/", "/files/"))]
    for key in dict.fromkeys(pointer.split("/")[1] for pointer in below):
        yield [pointer for pointer in below if pointer.startswith(f"/{key}/")]


def _objects(compiled: CompiledRun) -> Any:
    """Without the identity, in which even a queue counts that is the default, and with variables in the order of their names."""
    return _plain(list(compiled.manifests), compiled.identity)


def _plain(node: Any, identity: str) -> Any:
    if isinstance(node, str):
        return node.replace(identity, "")
    if isinstance(node, dict):
        return {key: _plain(_by_name(value) if key == "env" else value, identity) for key, value in node.items()}
    return [_plain(one, identity) for one in node] if isinstance(node, list) else node


def _by_name(variables: Any) -> Any:
    """Order means something only where one variable names another."""
    if isinstance(variables, list) and not any("$(" in str(one.get("value", "")) for one in variables):
        return sorted(variables, key=lambda one: str(one["name"]))
    return variables
