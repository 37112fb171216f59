"""One object of the original beside ours: which of its leaves ours keeps."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import Any

from trainwright.findings.locate import at
from trainwright.importing.accounting.matching import Compiled, View, refers_to
from trainwright.importing.accounting.pairing import ABSENT, Hosts, Leaf, Pairing, Place, kind_of_name
from trainwright.importing.hosts import RUN_NAME
from trainwright.importing.read import as_applied
from trainwright.objects.formats import amount


class Fate(StrEnum):
    """What a leaf is in ours."""

    SAME = "same"
    RENAMED = "renamed"
    """The same value where the place differs in names alone, or the name of an object that has another one."""
    CHANGED = "changed"
    OVERRIDE = "override"
    """The same, and an override of the run keeps it."""
    LEFT_OUT = "left_out"


class Side:
    """One object of the original, and ours of the same kind."""

    def __init__(
        self, view: View, number: int | None, ours: Sequence[Compiled], names: Mapping[tuple[str, str], str],
        pods: Sequence[Mapping[str, str]] = (), unknown: Collection[str] = (),
    ) -> None:  # fmt: skip
        mine = {} if number is None else ours[number].manifest
        self.view, self.number, self._names, self.pods = view, number, names, pods
        self.hosts = None if number is None else Hosts.of(view.tree, mine)
        self.pairing = Pairing(view.tree, mine, self.renamed)
        stored = isinstance(at(view.tree, "/metadata/uid") or at(view.tree, "/metadata/resourceVersion"), str)
        self._applied = as_applied(view.tree) if stored else None
        self._unknown = tuple(f"{one.removeprefix(view.pointer)}/" for one in unknown if one.startswith(view.pointer))
        found = self.pairing.leaves
        self.leaves = [leaf for leaf in found if not any(f"{leaf.pointer}/".startswith(f"{one}/") for one in view.apart)]

        selector = next((one for place in _SELECTORS if isinstance(one := at(view.tree, place), dict)), {})
        self.finds_pods = bool(selector) and any(selector.items() <= labels.items() for labels in pods)
        """Whether it is about pods of the original."""

    def is_of_the_server(self, leaf: Leaf) -> bool:
        """Whether an object from a cluster has a leaf because the API server or an operator wrote it."""
        return self._applied is not None and leaf.value is not None and at(self._applied, leaf.pointer) is None

    def is_unknown(self, leaf: Leaf) -> bool:
        """Whether its kind has no such field."""
        return f"{leaf.pointer}/".startswith(self._unknown)

    def renamed(self, place: Place, text: str) -> str:
        """A text of the original under our names."""
        if place[-1:] == ("subdomain",) and self.hosts and text in self.hosts.services:
            return self.hosts.here
        if place[-1:] in _OF_ROLES and self.hosts:
            return self.hosts.roles.get(text, text)
        kind = refers_to(place)
        if kind is not None and (kind, text) in self._names:
            return self._names[kind, text]
        if place[-2:-1] in _LABELS:  # by which other objects find it
            return next((mine for (_, name), mine in self._names.items() if name == text), text)
        return self.hosts.renamed(text) if self.hosts else text

    def nearest(self, leaf: Leaf) -> str:
        """Where a leaf should stand in ours, or a place below the nearest mapping around it that ours has."""
        above = leaf.pointer
        while leaf.here is None and above not in self.pairing.mappings:
            above = above.rpartition("/")[0]
        return f"{self.pairing.mappings[above]}/" if leaf.here is None else leaf.here

    def kept(self, leaf: Leaf) -> Fate | None:
        """What a leaf is that ours has too; None for one that differs."""
        wanted = leaf.value
        if leaf.mine is ABSENT:
            return None
        if isinstance(leaf.mine, str) and self.hosts:
            leaf = leaf._replace(mine=leaf.mine.replace(f"$({RUN_NAME})", self.hosts.here))
        if leaf.place == ("metadata", "name"):
            wanted = leaf.mine
        elif kind_of_name(leaf.place) is not None:
            wanted = self.pairing.name(leaf)
        elif leaf.place[-2:] == ("onExitCodes", "containerName"):
            wanted = self.pairing.container(leaf)
        elif isinstance(wanted, str) and not (leaf.place[-2:-1] in _LABELS and leaf.mine == wanted):
            wanted = self.renamed(leaf.place, wanted)
        if not equal(leaf.place, leaf.mine, wanted):
            return None
        return Fate.RENAMED if leaf.renamed or wanted != leaf.value else Fate.SAME


_OF_ROLES = (("targetReplicatedJobs",), ("targetReplicatedJob",))
"""Lists of names of roles; the names are known before their elements are matched, as words are."""
_SELECTORS = ("/spec/selector/matchLabels", "/spec/podSelector/matchLabels", "/spec/selector")
_LABELS = (("labels",), ("matchLabels",), ("selector",))


def equal(place: Place, mine: Any, wanted: Any) -> bool:
    if mine == wanted and isinstance(mine, bool) == isinstance(wanted, bool):
        return True
    if wanted in ({}, []) and not place[-1].endswith("elector"):  # it says that it is there; what ours has in it, it adds
        return type(mine) is type(wanted)
    if (place[-1] == "mountPath" or place[-2:] == ("hostPath", "path")) and isinstance(mine, str) and isinstance(wanted, str):
        return mine.rstrip("/") == wanted.rstrip("/")
    amounts = not {"resources", "resourcesPerNode"}.isdisjoint(place) or place[-1] in ("sizeLimit", "storage")
    return amounts and amount(mine) is not None and amount(mine) == amount(wanted)
