"""Whether the pods that a launcher of torch's starts ranks in are told of one meeting point, one size, and a number each.

A run of our trainer reads these from its specification. Others have variables, whose values are compared over all pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from trainwright.rehearsal.networks.dns import ClusterDns, Unresolvable
from trainwright.rehearsal.stated.environment import container_environment
from trainwright.rehearsal.stated.objects import Blocker, Objects, Slot
from trainwright.rehearsal.stated.pod import create_pod

ADDRESSES, SIZES, NUMBERS = ("PET_MASTER_ADDR", "MASTER_ADDR"), ("PET_NNODES", "NNODES"), ("PET_NODE_RANK", "NODE_RANK")
"""Of torchrun (torch/distributed/run.py and argparse_util.py) and of scripts that start it."""
ENDPOINT, BACKEND = "PET_RDZV_ENDPOINT", "PET_RDZV_BACKEND"
HERE = ("localhost", "127.0.0.1", "::1")


Told = dict[int, str]
"""Number of a slot -> what its pod is told."""


def check_meeting(objects: Objects, dns: ClusterDns) -> Iterator[Blocker]:
    """Disagreements between the pods of a run, one sentence for each variable."""
    values = {
        slot.number: container_environment(slot.spec.main, create_pod(slot, ""), objects, {}, "").values for slot in objects.slots
    }
    own = {slot.number: values[slot.number] for slot in objects.slots if not slot.reads_specification}
    if {size for name in SIZES for size in _of(own, name).values()} <= {"1"}:
        own = {}  # pods that train alone, one for each setting, are in order
    for name in SIZES:
        told = _without_own_counts(objects, own, _of(own, name))
        size = next(iter(told.values()), "")
        if size.isdecimal() and {*told.values()} == {size} and int(size) != len(told):
            yield _blocker(objects, told, name, f"it is {size}, and {len(told)} pods are told so: torch waits for {size}")
    for name in SIZES:
        told = _of(values, name)
        least, _, most = next(iter(told.values()), "").partition(":")
        if most and least.isdecimal() and int(least) > len(told):
            message = f"it is {least}:{most}, and {len(told)} pods are told so: torch waits for {least}"
            yield _blocker(objects, told, name, message)
    for name in NUMBERS:
        told = _without_own_counts(objects, own, _of(own, name))
        if twice := [number for number, count in Counter(told.values()).items() if count > 1]:
            message = f"it is {twice[0]} in more than one of {len(told)} pods, so that none knows which it is"
            yield _blocker(objects, told, name, message)
    for name in ADDRESSES:
        yield from _check_address(objects, own, name, dns)
    for number, endpoint in list(_of(values, ENDPOINT).items())[:1]:
        host = endpoint.rpartition(":")[0] or endpoint
        backend, found = values[number].get(BACKEND, ""), dns.find(host)
        if backend == "c10d" and isinstance(found, Unresolvable):
            message = f"{host} is no pod of the run, and with c10d one of them serves it"
            yield _blocker(objects, {number: endpoint}, ENDPOINT, message)
        elif backend.startswith("etcd") and isinstance(found, Slot):
            message = f"{host} is a pod of the run, and with {backend} a server of etcd is asked, which none of them is"
            yield _blocker(objects, {number: endpoint}, ENDPOINT, message)


def _check_address(objects: Objects, values: Mapping[int, Mapping[str, str]], name: str, dns: ClusterDns) -> Iterator[Blocker]:
    """Of the first pod only the others know whether it is right."""
    told = _of(values, name)
    numbered = next((one for one in NUMBERS if _of(values, one)), "")
    for address in list(dict.fromkeys(told.values()))[:1] if len(told) > 1 else ():
        if address in HERE and {*told.values()} == {address}:
            yield _blocker(objects, told, name, f"it is {address}, where each of {len(told)} pods would wait at itself")
        found = dns.find(address)
        if isinstance(found, Slot) and values.get(found.number, {}).get(numbered, "0") != "0":
            yield _blocker(objects, told, name, f"it is {address}, and the pod with {numbered} 0 is another one")


def _without_own_counts(objects: Objects, own: Mapping[int, Mapping[str, str]], told: Told) -> Told:
    """Without the roles that are told how many pods they have themselves, and each its number: they are no part of another's."""
    roles: dict[str, list[int]] = {}
    for number in told:
        roles.setdefault(objects.slots[number].made.role, []).append(number)
    for numbers in roles.values():
        sizes = {own[number].get(name) for number in numbers for name in SIZES} - {None}
        places = {own[number].get(name) for number in numbers for name in NUMBERS} - {None}
        if len(roles) > 1 and sizes == {str(len(numbers))} and places == {*map(str, range(len(numbers)))}:
            told = {number: value for number, value in told.items() if number not in numbers}
    return told


def _of(values: Mapping[int, Mapping[str, str]], name: str) -> Told:
    return {number: told[name] for number, told in values.items() if told.get(name)}


def _blocker(objects: Objects, told: Told, name: str, message: str) -> Blocker:
    slot = objects.slots[next(iter(told))]
    where = f"{objects.place(slot, slot.spec.main)}, env {name}"
    return Blocker(where, message, "let all pods be told the same, and each its number")
