"""What this compiler emitted: the specification beside an object, and what it says of the run that no pod says."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import ValidationError

from trainwright.compile import CompiledRun
from trainwright.findings.locate import escape
from trainwright.importing.words import Data
from trainwright.manifest.data.fetching import fetches_into
from trainwright.manifest.data.fetching import said as said_by_job
from trainwright.manifest.labels import MANAGED, RUN_LABEL
from trainwright.manifest.template.awaiting import AWAIT_CONTAINER
from trainwright.manifest.template.bringing import BRING_CONTAINER
from trainwright.objects.fields import mapping, text
from trainwright.operators.said import is_supervisor
from trainwright.overrides.merge import is_keyed, merge_key
from trainwright.plan.packages import CONTAINER as INSTALL_CONTAINER
from trainwright.plan.packages import REQUIREMENTS
from trainwright.plan.said import said
from trainwright_trainer.contract import RunSpec
from trainwright_trainer.contract.layout import DEEPSPEED_FILE, SPEC_FILE

Tree = Mapping[str, Any]


class Distance(NamedTuple):
    """The less, the nearer: what is lost counts more than what is added, and that more than an order."""

    lost: int
    """Values that are no more there."""
    added: int
    """Values that were not there."""
    differs: bool
    """Whether any byte does."""


ONLY_ORDER, NONE = Distance(0, 0, True), Distance(0, 0, False)


class Aim:
    """The objects that a run was emitted as, which it should be emitted as again."""

    def __init__(self, carrier: Tree, objects: Sequence[Tree], said: Collection[str]) -> None:
        """``said`` are the fields that a specification says as short as they can be."""
        self.said = frozenset(said) - {"topology", "checkpoints"}
        name = text(carrier, "/metadata/name")
        self._run = text(carrier, f"/metadata/labels/{escape(RUN_LABEL)}")
        self._identity = name.removeprefix(f"{self._run}-")
        self._wanted = {self._called(one, self._identity): _without(one, self._identity) for one in (carrier, *objects)}
        own = [one for one in (carrier, *objects) if mapping(one, "/metadata/labels").get(RUN_LABEL) == self._run]
        self._own = {self._called(one, self._identity) for one in own}

    def distance(self, compiled: CompiledRun) -> Distance:
        """Between the objects of a run and what they should be."""
        mine = {self._called(one, compiled.identity): _without(one, compiled.identity) for one in compiled.manifests}
        pairs = [(self._nearest(key, one), one) for key, one in mine.items()]
        pairs += [(self._wanted[key], None) for key in sorted(self._own - mine.keys())]
        different = [pair for pair in pairs if json.dumps(pair[0]) != json.dumps(pair[1])]
        lost, added = zip(*(_apart(*pair) for pair in different), strict=True) if different else ((), ())
        return Distance(sum(lost), sum(added), bool(different))

    def as_near(self, before: CompiledRun) -> Callable[[CompiledRun], bool]:
        """Whether another run is as near as that one."""
        wanted = self.distance(before)
        return lambda compiled: self.distance(compiled) <= wanted

    def as_near_but_for_order(self, before: CompiledRun) -> Callable[[CompiledRun], bool]:
        wanted = self.distance(before)
        return lambda compiled: self.distance(compiled)[:2] <= wanted[:2]

    def _nearest(self, key: tuple[str, str], mine: Any) -> Any:
        """The object of that name, or of those that are called after their content the one that is most alike."""
        if key in self._wanted:
            return self._wanted[key]
        others = (one for (kind, _), one in self._wanted.items() if kind == key[0])
        return min(others, key=lambda one: sum(_apart(one, mine)), default=None)

    def patches(self, compiled: CompiledRun) -> Iterator[tuple[str, Data]]:
        """Kind and merge patch of each object that is there on both sides and differs."""
        for one in compiled.manifests:
            mine = _without(one, compiled.identity)
            wanted = self._nearest(self._called(one, compiled.identity), mine)
            if wanted and (
                patch := _patch({**wanted, "metadata": {**wanted["metadata"], "name": mine["metadata"]["name"]}}, mine)
            ):
                yield text(one, "/kind"), patch

    @staticmethod
    def _called(one: Tree, identity: str) -> tuple[str, str]:
        return text(one, "/kind"), text(one, "/metadata/name").replace(identity, "")


def _without(node: Any, identity: str) -> Any:
    return json.loads(json.dumps(node).replace(identity, ""))


def _patch(wanted: Any, mine: Any) -> Any:
    """What makes of an object the one that is wanted, as ``overrides`` merges it."""
    patch: Data = {key: None for key in mine if key not in wanted}
    for key, value in wanted.items():
        here = mine.get(key)
        if here == value:
            continue
        if isinstance(value, dict) and isinstance(here, dict):
            patch[key] = _patch(value, here)
        elif isinstance(value, list) and isinstance(here, list) and is_keyed(value, key):
            name = merge_key(key)
            known = {one[name]: one for one in here if name in one}
            changed = ((one[name], _patch(one, known.get(one[name], {}))) for one in value if one != known.get(one[name]))
            patch[key] = [{name: called, **change} for called, change in changed]
        else:
            patch[key] = value
    return patch


def _apart(one: Any, other: Any) -> tuple[int, int]:
    ones, others = Counter(_values(one)), Counter(_values(other))
    return (ones - others).total(), (others - ones).total()


def _values(node: Any, place: str = "") -> Iterator[str]:
    """Each value with its place, in which an element of a list has its name and no number."""
    if isinstance(node, dict):
        for key, value in node.items():
            yield from _values(value, f"{place}/{key}")
    elif isinstance(node, list):
        for one in node:
            yield from _values(one, f"{place}/{one.get('name') or one.get('mountPath') if isinstance(one, dict) else ''}")
    elif node is not None:
        yield f"{place}={node}"


def is_ours(data: Tree) -> bool:
    return MANAGED.items() <= mapping(data, "/metadata/labels").items()


def supervised(data: Tree, objects: Sequence[Tree]) -> Data | None:
    """The fields of a run by its specification; None where no supervisor of ours runs in it.

    Raises:
        ValueError: for a specification that this compiler cannot read.
    """
    name = text(data, "/metadata/name")
    maps = (mapping(one, "/data") for one in objects if one.get("kind") == "ConfigMap" and text(one, "/metadata/name") == name)
    files = next((each for each in maps if SPEC_FILE in each), None) if is_ours(data) else None
    if files is None:
        return None
    try:
        spec = RunSpec.model_validate_json(files[SPEC_FILE])
        stated = said(spec, json.loads(files.get(DEEPSPEED_FILE, "{}")))
    except (ValidationError, json.JSONDecodeError) as error:
        raise ValueError(f"its {SPEC_FILE} is of another release of Trainwright, or was edited: {error}") from error
    if REQUIREMENTS in files:
        stated["workload"]["packages"] = files[REQUIREMENTS].splitlines()
    return stated


def without_ours(words: Data, jobs: Sequence[Tree]) -> Data:
    """A pod's words without what the plan puts there for our supervisor and for data that is fetched.

    Args:
        words: of one pod.
        jobs: of the foundation.

    Raises:
        LookupError: the Job that fetches its data is not given.
    """
    kept = dict(words)
    if is_supervisor(words.get("command")):
        for key in ("command", "args", "probes"):
            kept.pop(key, None)
    beside = words.get("containers", ())
    own = [one for one in beside if _name(one) not in _OURS]
    if waits := next((one for one in beside if _name(one) == AWAIT_CONTAINER), None):
        kept |= _fetched(words, _container(waits), jobs)
    if len(own) < len(beside):
        kept["containers"] = own
    return {key: value for key, value in kept.items() if value != []}


_OURS = frozenset({AWAIT_CONTAINER, BRING_CONTAINER, INSTALL_CONTAINER})


def _name(one: Tree) -> Any:
    return _container(one).get("name")


def _container(one: Tree) -> Tree:
    """As Kubernetes writes it, or in the shorter words."""
    stated: Tree = one.get("container", one)
    return stated


def _fetched(words: Data, waits: Tree, jobs: Sequence[Tree]) -> Data:
    """What is prepared, in place of the mounts of its folders."""
    mounts, prepared = dict(words.get("mounts", {})), {}
    for marker in waits["args"]:
        path, key = str(marker).replace("$$", "$").removesuffix(".complete").rsplit("/", 1)
        mount = mounts.pop(path)
        job = next((one for one in jobs if fetches_into(one, mount["claim"], mount["sub_path"])), None)
        if job is None:
            raise LookupError(f"{path} is fetched by a Job that is not among the objects; add those of the foundation")
        prepared[path] = said_by_job(job, key)
    env = {one["name"]: one["value"] for one in waits["env"]} if isinstance(waits["env"], list) else waits["env"]
    return {"mounts": mounts, "prepare": prepared, "peer_wait": f"{env['BUDGET_SECONDS']}s"}
