"""Two objects of one kind side by side: what each leaf of the one is in the other, with elements of lists matched one to one."""

from __future__ import annotations

import difflib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

import yaml

from trainwright.findings.locate import escape

Tree = dict[str, Any]


class Item(str):
    """An element of a list, as a part of a place: its name, or its number."""

    __slots__ = ()


Place = tuple[str, ...]


class Absent(Enum):
    ABSENT = "nothing"


ABSENT: Final = Absent.ABSENT
"""What ours has where it has nothing; null is a value."""


class Leaf(NamedTuple):
    """A scalar, an empty list or an empty mapping of the original."""

    place: Place
    pointer: str
    """``#/path`` ends it for a place in a text that is YAML."""
    value: Any
    here: str | None
    """Where it should stand in ours; None below an element that ours does not have."""
    mine: Any
    """What stands there."""
    renamed: bool
    """Whether an element on the way has another name in ours."""


NAMED: Mapping[str, tuple[str, ...]] = {
    "role": ("replicatedJobs", "tasks", "workerGroupSpecs"),
    "container": ("containers", "initContainers"),
    "volume": ("volumes", "volumeMounts"),
}
"""Kind of name -> the lists whose elements have it. Each such name may be another one in ours."""
_ROLES = NAMED["role"]

_KNOWN_BY: Mapping[str, tuple[str, ...]] = {
    "ports": ("containerPort", "port", "protocol"),
    "volumeMounts": ("mountPath", "subPath"),
    "volumeDevices": ("devicePath",),
    "matchExpressions": ("key", "operator"),
    "workerGroupSpecs": ("groupName",),
    "topologySpreadConstraints": ("topologyKey",),
}
"""List -> what its elements are known by, where that is not their name."""
_DEFAULTS = {"protocol": "TCP", "subPath": ""}
_ONLY_BY_NAME = frozenset({"env", "imagePullSecrets"})
"""Lists in which nothing with another name stands for an element."""
REPLICAS = "ReplicaSpecs"
"""End of the name of a mapping from types of replicas to these."""
ENDS = r"(?![\w-]|\.(?!(?:[\w-]+\.)?svc\b)\w)"
"""What is not behind a host of the cluster: more of its name, or a domain of the world outside."""
IN_ORDER = frozenset({"command", "args"})
"""Lists of words whose order counts."""


def kind_of_name(place: Place) -> str | None:
    """Of the name that stands at a place of an object; None where none does."""
    if len(place) < 3 or not isinstance(place[-2], Item) or place[-1] not in ("name", "groupName"):
        return None
    return next((kind for kind, lists in NAMED.items() if place[-3] in lists), None)


def leaves(value: Any, place: Place = (), pointer: str = "") -> Iterator[Leaf]:
    """Every leaf of an object that has nothing beside it."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            text, below = _text(key, inner), f"{pointer}/{escape(str(key))}"
            yield from leaves(inner if text is None else text, (*place, str(key)), below if text is None else f"{below}#")
    elif isinstance(value, list) and value:
        for index, inner in enumerate(value):
            yield from leaves(inner, (*place, _label(place[-1] if place else "", value, index)), f"{pointer}/{index}")
    else:
        yield Leaf(place, pointer, value, None, ABSENT, False)


def _text(key: str, value: Any) -> Any:
    """What a text holds that is YAML by its field's name; None for anything else."""
    if not (isinstance(value, str) and str(key).endswith("YAML")):
        return None
    try:
        read = yaml.safe_load(value)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    return read if isinstance(read, dict | list) and read else None


def _label(within: str, elements: Sequence[Any], index: int) -> Item:
    """An element as people call it: by its name where each has one of its own, words by themselves, others by their number."""
    if all(isinstance(element, dict) for element in elements):
        names = [_name(within, element) for element in elements]
        return Item(index if None in names or len(set(names)) < len(names) else names[index])
    words = [str(element) for element in elements]
    return Item(f"{words[index]} ({words[: index + 1].count(words[index])})")


def _name(within: str, element: Mapping[str, Any]) -> str | None:
    """What people call an element of a list; None where it has no name."""
    known_by = _KNOWN_BY.get(within, ("name",))[0]
    name = element.get(known_by)
    return str(name) if isinstance(name, str | int) else None


class Pairing:
    """An object of the original and ours.

    Args:
        there: the original's.
        here: ours.
        renamed: a text of the original under our names.
    """

    def __init__(self, there: Tree, here: Tree, renamed: Callable[[Place, str], str]) -> None:
        self._renamed = renamed
        self._volumes: dict[str, str] = {}
        self.names: dict[tuple[str, str], set[str]] = {}
        """Kind of name and name in ours -> the names there that are it."""
        self._of_pods: dict[tuple[Place, str], str] = {}
        self.mappings: dict[str, str] = {}
        """Pointer of a mapping there -> in ours."""
        self.leaves: list[Leaf] = []
        self._descend(there, here, Leaf((), "", None, "", ABSENT, False))
        for leaf in self.leaves:
            kind = kind_of_name(leaf.place)
            if kind is not None and isinstance(leaf.mine, str) and leaf.place[-3] != "volumeMounts":
                self.names.setdefault((kind, leaf.mine), set()).add(str(leaf.value))
                self._of_pods[leaf.place[:-3], str(leaf.value)] = leaf.mine

    def name(self, leaf: Leaf) -> str:
        """What an element of a list should be called in ours, by its name there. Two whose names became one keep theirs."""
        value, kind = str(leaf.value), kind_of_name(leaf.place)
        mounted = leaf.place[-3] == "volumeMounts"
        mine = self._of_pods.get((leaf.place[: -5 if mounted else -3], value), value)
        return mine if len(self.names.get((str(kind), mine), ())) < 2 else value

    def container(self, leaf: Leaf) -> str:
        """What the container is called in ours that a rule of a Job names: one of the Job's own pods."""
        return self._of_pods.get(((*leaf.place[:-5], "template", "spec"), str(leaf.value)), str(leaf.value))

    def _descend(self, there: Any, here: Any, at: Leaf) -> None:
        if isinstance(there, dict) and there:
            mine = here if isinstance(here, dict) else {}
            if at.here is not None:
                self.mappings[at.pointer] = at.here
            before = self._volumes
            if isinstance(there.get("volumes"), list) and isinstance(mine.get("volumes"), list):
                self._volumes = _volume_names(there, mine)
            known = replica_types(there, mine) if at.place and at.place[-1].endswith(REPLICAS) else {}
            for key, value in there.items():
                ours = known.get(str(key), str(key))
                self._below(str(key), ours, value, mine.get(ours, ABSENT), at._replace(renamed=at.renamed or ours != key))
            self._volumes = before
        elif isinstance(there, list) and there:
            self._elements(there, here if isinstance(here, list) else [], at)
        else:
            self.leaves.append(at._replace(value=there, mine=here))

    def _below(self, key: str, ours: str, there: Any, here: Any, at: Leaf) -> None:
        pointer = f"{at.pointer}/{escape(key)}"
        mine = None if at.here is None else f"{at.here}/{escape(ours)}"
        text = _text(key, there)
        if text is not None:
            read = _text(key, here)
            there, here, pointer = text, ABSENT if read is None else read, f"{pointer}#"
            mine = None if mine is None else f"{mine}#"
        self._descend(there, here, at._replace(place=(*at.place, key), pointer=pointer, here=mine))

    def _elements(self, there: list[Any], here: list[Any], at: Leaf) -> None:
        within = at.place[-1] if at.place else ""
        if all(isinstance(element, dict) for element in (*there, *here)):
            pairs = self._pairs(within, there, here, at)
        else:
            wanted = [self._renamed(at.place, each) if isinstance(each, str) else each for each in there]
            pairs = _words(wanted, here, ordered=within in IN_ORDER)
        for index, element in enumerate(there):
            place, number = (*at.place, _label(within, there, index)), pairs.get(index)
            if number is None:
                self._descend(element, ABSENT, Leaf(place, f"{at.pointer}/{index}", None, None, ABSENT, at.renamed))
                continue
            renamed = isinstance(element, dict) and _name(within, element) != _name(within, here[number])
            mine = None if at.here is None else f"{at.here}/{number}"
            below = Leaf(place, f"{at.pointer}/{index}", None, mine, ABSENT, at.renamed or renamed)
            self._descend(element, here[number], below)

    def _pairs(self, within: str, there: list[Any], here: list[Any], at: Leaf) -> dict[int, int]:
        if within == "volumes":
            names = [element.get("name") for element in here]
            pairs = {
                index: names.index(mine)
                for index, element in enumerate(there)
                if (mine := self._volumes.get(str(element.get("name")))) in names
            }
            return _rest(pairs, within, [self._under_our_names(element, at.place) for element in there], here)
        pairs = element_pairs(within, there, here)
        return _with_twins(pairs, there) if within in _ROLES else pairs

    def _under_our_names(self, node: Any, place: Place) -> Any:
        """The same where the names of objects are those of ours."""
        if isinstance(node, dict):
            return {key: self._under_our_names(value, (*place, str(key))) for key, value in node.items()}
        return self._renamed(place, node) if isinstance(node, str) else node


def element_pairs(within: str, there: Sequence[Any], here: Sequence[Any]) -> dict[int, int]:
    """Number of an element there -> of the one that stands for it: the one of its name, else the one that is most like it.

    Of several with one name the last ones are matched first, since in a container's ``env`` the last one counts.
    """
    pairs: dict[int, int] = {}
    known = [_identity(within, element) for element in here]
    for index in reversed(range(len(there))):
        name = _identity(within, there[index])
        free = [number for number in range(len(here)) if known[number] == name and number not in pairs.values()]
        if free:
            pairs[index] = free[-1]
    return _rest(pairs, within, there, here)


def _rest(pairs: dict[int, int], within: str, there: Sequence[Any], here: Sequence[Any]) -> dict[int, int]:
    if within in _ONLY_BY_NAME:
        return pairs
    left = [index for index in range(len(there)) if index not in pairs]
    free = [number for number in range(len(here)) if number not in pairs.values()]
    found = [(_likeness(there[index], here[number]), -index, -number) for index in left for number in free]
    least = 0 if within in (*_ROLES, "containers") else 1
    for alike, index, number in sorted(found, reverse=True):
        if alike >= least and -index not in pairs and -number not in pairs.values():
            pairs[-index] = -number
    return pairs


def _with_twins(pairs: dict[int, int], there: Sequence[Any]) -> dict[int, int]:
    """Roles of one pod template may be one in ours, as a master and its workers are: what stands for one stands for both."""
    found = [json.dumps(role["template"], sort_keys=True, default=str) if "template" in role else None for role in there]
    known = {found[index]: number for index, number in pairs.items() if found[index]}
    return {index: known[template] for index, template in enumerate(found) if template in known} | pairs


def _identity(within: str, element: Mapping[str, Any]) -> str:
    known_by = _KNOWN_BY.get(within, ("name",))
    if not any(key in element for key in known_by):
        return json.dumps(element, sort_keys=True, default=str)
    found = {key: str(element.get(key, _DEFAULTS.get(key))) for key in known_by}
    if within == "volumeMounts":
        found["mountPath"] = found["mountPath"].rstrip("/")
    return json.dumps([*found.values()])


def _likeness(there: Any, here: Any) -> int:
    """How many leaves two elements have in common, wherever in their lists."""
    alike = _bare(there) & _bare(here)
    return sum(count for (place, value), count in alike.items())


def _bare(element: Any) -> Counter[tuple[Place, str]]:
    found = leaves(element)
    return Counter((tuple("" if isinstance(part, Item) else part for part in leaf.place), repr(leaf.value)) for leaf in found)


def _volume_names(there: Tree, here: Tree) -> dict[str, str]:
    """Name of a volume there -> of the one in ours that the same places of the same containers mount."""
    votes = Counter[tuple[str, str]]()
    for field in NAMED["container"]:
        ones, others = _mappings(there.get(field)), _mappings(here.get(field))
        for index, number in element_pairs(field, ones, others).items():
            mounts, mine = (_mappings(container.get("volumeMounts")) for container in (ones[index], others[number]))
            same = element_pairs("volumeMounts", mounts, mine).items()
            votes.update((str(mounts[one].get("name")), str(mine[other].get("name"))) for one, other in same)
    names: dict[str, str] = {}
    for (one, other), _ in votes.most_common():
        if one not in names and other not in names.values():
            names[one] = other
    return names


def _mappings(value: Any) -> list[Tree]:
    """A list of mappings; none of anything else."""
    return value if isinstance(value, list) and all(isinstance(element, dict) for element in value) else []


def _words(there: list[Any], here: list[Any], *, ordered: bool) -> dict[int, int]:
    """Number of a word -> of the same one in ours, or where order counts of the one in its place."""
    ones, others = [repr(word) for word in there], [repr(word) for word in here]
    if not ordered:
        free: dict[str, list[int]] = {}
        for number in reversed(range(len(others))):
            free.setdefault(others[number], []).append(number)
        return {index: free[word].pop() for index, word in enumerate(ones) if free.get(word)}
    pairs: dict[int, int] = {}
    for what, first, last, start, end in difflib.SequenceMatcher(None, ones, others, autojunk=False).get_opcodes():
        if what in ("equal", "replace"):
            pairs.update(zip(range(first, last), range(start, end), strict=False))
    return pairs


def replica_types(there: Mapping[str, Any], here: Any) -> dict[str, str]:
    """Type of replicas there -> in ours, each once. The operator knows them by any case, and the chief of a TFJob as its master,
    too.
    """
    free = [str(key) for key in here] if isinstance(here, dict) else []
    types = {str(key): str(key) for key in there if key in free}
    free = [key for key in free if key not in types]
    for key in (str(key) for key in there if key not in types):
        lower = key.lower()
        mine = next((one for one in free if one.lower() in (lower, "chief" if lower == "master" else lower)), None)
        types[key] = key if mine is None else mine
        free = [one for one in free if one != mine]
    return types


def role_names(there: Any, here: Any) -> dict[str, str]:
    """Name of a role there -> in ours, of lists of roles at the same place of two objects."""
    names: dict[str, str] = {}
    if not (isinstance(there, dict) and isinstance(here, dict)):
        return names
    for key, value in there.items():
        if key in _ROLES:
            ones, others = _mappings(value), _mappings(here.get(key))
            pairs = element_pairs(key, ones, others).items()
            names |= {str(_name(key, ones[one])): str(_name(key, others[other])) for one, other in pairs}
        elif key.endswith(REPLICAS) and isinstance(value, dict):
            names |= {role.lower(): mine.lower() for role, mine in replica_types(value, here.get(key)).items()}
        else:
            names |= role_names(value, here.get(key))
    return names


class Hosts(NamedTuple):
    """The hosts that an object's name makes, and the files that Volcano calls by its tasks: where names stand in other texts."""

    there: str
    here: str
    roles: Mapping[str, str]
    services: tuple[str, ...]
    """The names of Services by which the original's pods are called: its own, and its ``subdomain``."""

    @classmethod
    def of(cls, there: Tree, here: Tree) -> Hosts:
        name, mine = (str((one.get("metadata") or {}).get("name", "")) for one in (there, here))
        stated = [leaf.value for leaf in leaves(there) if leaf.place[-1:] == ("subdomain",)]
        return cls(name, mine, role_names(there, here), tuple(dict.fromkeys([name, *map(str, stated)])))

    def renamed(self, text: str) -> str:
        """``pytorch-workers-0-0.pytorch`` and ``/etc/volcano/mpiworker.host`` under our names; nothing else of a text."""
        if self.there and self.there in text:
            roles = "|".join(map(re.escape, sorted(self.roles, key=len, reverse=True)))
            role = rf"-(?P<role>{roles})" if roles else "(?P<role>)"
            services = "|".join(map(re.escape, sorted(self.services, key=len, reverse=True)))
            host = rf"(?<![\w.-]){re.escape(self.there)}{role}(?P<number>(?:-\d+)+)(?P<domain>\.(?:{services}))?{ENDS}"
            text = re.sub(host, self._host, text)
        return re.sub(r"(?<=/etc/volcano/)([\w-]+)(?=\.host\b)", lambda task: self.roles.get(task[1], task[1]), text)

    def _host(self, host: re.Match[str]) -> str:
        role = f"-{self.roles[host['role']]}" if host["role"] else ""
        return f"{self.here}{role}{host['number']}{f'.{self.here}' if host['domain'] else ''}"
