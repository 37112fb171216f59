"""The work of an apply: in an order in which whatever ends it, the next one can go on.

What is about to be made is written down before it is made. What leaves is gone before anything starts. A workload comes after
what it needs, and what it needs goes after it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from trainwright.apply.inventory import FOUNDATION, INVENTORY, Entry, Inventory, Made, annotation, is_kept
from trainwright.apply.plan import Gone, Live, Plan, Wanted, named, without_theirs
from trainwright.live.kubectl import Kubectl, KubectlError, Object, Reason, Resource
from trainwright.manifest.kinds import ObjectKey
from trainwright.operators.operator import makes_pods

Resources = Mapping[tuple[str, str], Resource]

NAMESPACE = "Namespace"
NO_CLUSTER = (Reason.UNREACHABLE, Reason.UNAUTHORIZED, Reason.MISSING)
"""After such a failure all others would fail too."""


@dataclass(slots=True)
class Apply:
    """One namespace's. Whatever goes wrong with one run is said, and does not hold up the others."""

    kubectl: Kubectl
    plan: Plan
    inventory: Inventory
    live: Live
    resources: Resources
    commit: str
    rivals: Mapping[str, Collection[str]]
    """Run that starts -> other runs whose workloads train where it would, and so must be gone before."""
    seconds: float
    """How long may be waited for what is deleted."""
    say: Callable[[str], None]
    problems: list[str] = field(default_factory=list)
    _held_up: set[str] = field(default_factory=set)
    """Runs of which something is still there that had to go first."""
    _stored: dict[ObjectKey, Object] = field(init=False)

    def __post_init__(self) -> None:
        self._stored = dict(self.live)

    def __call__(self) -> list[str]:
        """Do it, and return what could not be done.

        Raises:
            KubectlError: where the foundation or the inventory cannot be written; then no run was touched.
        """
        first = [one for one in self._due(FOUNDATION) if one.manifest["kind"] == NAMESPACE]
        for one in first:
            self._put(one)
        self._intend()
        for one in self._due(FOUNDATION):
            if one not in first:
                self._put(one)
        self._remove([gone for gone in self.plan.remove if gone.owner])
        for run in dict.fromkeys(one.owner for one in self.plan.wanted if one.owner):
            self._start(run)
        self._remove([gone for gone in self.plan.remove if gone.owner == FOUNDATION])
        self.settle()
        return self.problems

    def _due(self, owner: str) -> list[Wanted]:
        """What of an owner is made or changed, workloads last."""
        due = [one for one in (*self.plan.make, *self.plan.change) if one.owner == owner]
        return sorted(due, key=lambda one: makes_pods(one.manifest))

    # The inventory.

    def _intend(self) -> None:
        """Write down everything that is about to be made, beside all that was; what leaves without its uid.

        So it does not count as made and gone by itself, whenever this ends, if it is wanted again. Its annotation is known.
        """
        made, leaving = dict(self.inventory.made), self._leaving()
        for owner in {one.owner for one in self.plan.wanted} | {gone.owner for gone in self.plan.remove}:
            before = made.get(owner, Made("", ()))
            known = {key: entry._replace(uid="") if key in leaving else entry
                     for key, entry in self._by_key(before.entries).items()}
            made[owner] = Made(before.commit, tuple({**known, **self._entries(owner)}.values()))
        self._write(made)

    def settle(self) -> None:
        """Write down what there is now, and from which commit."""
        made = {}
        owners, ended = {one.owner for one in self.plan.wanted}, {one.key for one in self.plan.ended}
        leaving = self._leaving()
        for owner in (*self.inventory.made, *sorted(owners - self.inventory.made.keys())):
            before = self.inventory.made.get(owner, Made("", ()))
            there = self._by_key(found for entry in before.entries if (found := self._as_it_is(entry, ended, leaving)))
            there |= {key: entry for key, entry in self._entries(owner).items() if entry.uid}
            done = owner in owners and owner not in self._held_up
            made[owner] = Made(self.commit if done else before.commit, tuple(there.values()))
        self._write(made)

    def _leaving(self) -> set[ObjectKey]:
        """What is removed and is known without its uid."""
        return {gone.key for gone in self.plan.remove if self._ours(gone.live)}

    def _entries(self, owner: str) -> dict[ObjectKey, Entry]:
        """Of what is wanted and may be removed one day, with the uids of what is there; of what others made there is none."""
        found = []
        for one in self.plan.wanted:
            there = self._stored.get(one.key)
            if there and "deletionTimestamp" in there["metadata"]:
                there = None
            if one.owner == owner and not is_kept(one.manifest) and (there is None or self._ours(there)):
                uid = there["metadata"]["uid"] if there else ""
                found.append(Entry(one.manifest["apiVersion"], one.key.kind, one.key.name, uid))
        return self._by_key(found)

    def _by_key(self, entries: Iterable[Entry]) -> dict[ObjectKey, Entry]:
        return {entry.key(self.inventory.namespace): entry for entry in entries}

    def _ours(self, live: Object) -> bool:
        return annotation(live, INVENTORY) == self.inventory.name

    def _as_it_is(self, entry: Entry, ended: Collection[ObjectKey], leaving: Collection[ObjectKey]) -> Entry | None:
        """An entry of what is to be known on: it is the object that was made, or it deleted itself.

        One without a uid, of an apply that was interrupted, gets that of the object, unless it is being deleted or is to be:
        what is gone without a uid does not count as made.
        """
        key = entry.key(self.inventory.namespace)
        there = self._stored.get(key)
        if there is None:
            return entry if key in ended else None
        if not self.inventory.is_of(entry, there):
            return None
        leaves = "deletionTimestamp" in there["metadata"] or key in leaving
        return entry if leaves else entry._replace(uid=there["metadata"]["uid"])

    def _write(self, made: Mapping[str, Made]) -> None:
        inventory = replace(self.inventory, made=made)
        if inventory.data != self.inventory.data:
            version = self.kubectl.apply(inventory.manifest)["metadata"]["resourceVersion"]
            inventory = replace(inventory, version=version)
        self.inventory = inventory

    # Objects.

    def _path(self, api_version: str, kind: str, name: str) -> str:
        resource = self.resources[api_version, kind]
        group = f"/{'apis' if '/' in api_version else 'api'}/{api_version}"
        place = f"/namespaces/{self.inventory.namespace}" if resource.namespaced else ""
        return f"{group}{place}/{resource.plural}/{name}"

    def _path_of(self, live: Object) -> str:
        return self._path(live["apiVersion"], live["kind"], live["metadata"]["name"])

    def _put(self, one: Wanted) -> None:
        """Make or change one object, after the end of one of its name that is being deleted."""
        there = self._stored.get(one.key)
        if there and "deletionTimestamp" in there["metadata"]:
            self.say(f"{named(there)} is being deleted: waiting for its end")
            self.kubectl.wait_until_gone(self._path_of(there), there["metadata"]["uid"], self.seconds)
            there = None
        sent = without_theirs(one.manifest, there) if there and _is_fixed(one) else one.manifest
        self._stored[one.key] = self.kubectl.apply(sent)
        self.say(f"{named(one.manifest)} {'changed' if there else 'made'}")

    def _start(self, run: str) -> None:
        """What a run needs, then its workload."""
        due = self._due(run)
        waits_for = ({run} | set(self.rivals.get(run, ()))) & self._held_up
        if waits_for and run in self.plan.starting:
            self._held_up.add(run)
            self.problems.append(f"{run} does not start: what was there of {', '.join(sorted(waits_for))} is not gone yet; "
                                 "apply again when it is")
            return
        try:
            for one in due:
                self._put(one)
        except KubectlError as error:
            if error.reason in NO_CLUSTER:
                raise
            self._held_up.add(run)
            self.problems.append(f"{run}: {error}")

    def _remove(self, gone: list[Gone]) -> None:
        """Delete objects: first those that have pods, and when these have ended, what the pods needed until then."""
        for batch in ([one for one in gone if makes_pods(one.live)], [one for one in gone if not makes_pods(one.live)]):
            asked = [one for one in batch if one.owner not in self._held_up and self._ask(one)]
            end = time.monotonic() + self.seconds
            for one in asked:
                self._await(one, max(end - time.monotonic(), 0))

    def _ask(self, one: Gone) -> bool:
        try:
            if "deletionTimestamp" not in one.live["metadata"]:
                self.kubectl.delete(self._path_of(one.live), one.live["metadata"]["uid"])
            self.say(f"{named(one.live)} is being deleted")
            return True
        except KubectlError as error:
            if error.reason is Reason.CONFLICT:  # another object has its name by now, which is not ours
                return False
            self._failed(one, error)
            return False

    def _await(self, one: Gone, seconds: float) -> None:
        try:
            self.kubectl.wait_until_gone(self._path_of(one.live), one.live["metadata"]["uid"], seconds)
            self._stored.pop(one.key, None)
            self.say(f"{named(one.live)} is gone")
        except KubectlError as error:
            self._failed(one, error)

    def _failed(self, one: Gone, error: KubectlError) -> None:
        self._held_up.add(one.owner)
        self.problems.append(f"{one.owner or 'foundation'}: {error}")


def _is_fixed(one: Wanted) -> bool:
    """Whether an object's name follows from its content, so that only labels and the like of it can have changed: all of a run
    but what is called after it alone, and the Jobs of a foundation.
    """
    return makes_pods(one.manifest) or (bool(one.owner) and one.key.name != one.owner)
