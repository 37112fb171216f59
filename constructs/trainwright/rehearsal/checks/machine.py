"""Whether this machine can play a run: how many pods, what the environment has that stands for the image, addresses and ports."""

from __future__ import annotations

import errno
import re
import socket
import sys
from collections.abc import Iterator
from importlib.metadata import distributions, requires
from pathlib import Path

from trainwright.manifest.kueue import MULTIKUEUE, QUEUE_LABEL
from trainwright.rehearsal.networks.network import Loopback, Network
from trainwright.rehearsal.setting import own_programs
from trainwright.rehearsal.stated.objects import Blocker, Objects, Specification
from trainwright_trainer.contract.boosting import Boosting
from trainwright_trainer.contract.engine import EngineName
from trainwright_trainer.contract.training import Training

EXTRAS: dict[EngineName, tuple[str, ...]] = {
    "ddp": ("torch",), "fsdp2": ("torch",), "deepspeed": ("torch", "deepspeed"), "horovod": ("torch", "horovod"),
    "tensorflow": ("tensorflow",),
}
"""Engine -> the extras of our trainer's package that bring what it trains with."""
MOST_PODS = 200


def check_run(objects: Objects) -> Iterator[Blocker]:
    """Whether it would start anything, and whether one machine can play so many pods."""
    spec = objects.workload["spec"]
    if spec.get("suspend") or (spec.get("runPolicy") or {}).get("suspend"):
        yield Blocker(objects.where, "it is suspended, so no pod would start", "remove suspend")
    manager = spec.get("managedBy") or (spec.get("runPolicy") or {}).get("managedBy")
    if manager == MULTIKUEUE and not (objects.workload["metadata"].get("labels") or {}).get(QUEUE_LABEL):
        message = f"it is managed by {manager}, and no queue sends it to another cluster: no pod would start"
        yield Blocker(objects.where, message, f"write the label {QUEUE_LABEL}, or remove managedBy")
    if len(objects.slots) > MOST_PODS:
        yield Blocker(objects.where, f"it has {len(objects.slots)} pods", f"rehearse fewer: --nodes {MOST_PODS}")


def check_libraries(specification: Specification | None, programs: Path) -> Iterator[Blocker]:
    """Whether the environment that stands for the image has what our trainer's ranks import."""
    work, folder = specification.spec.work if specification else None, programs.parent
    extras = EXTRAS[work.engine] if isinstance(work, Training) else ("xgboost",) if isinstance(work, Boosting) else ()
    packages = [str(path) for path in folder.glob("lib/python3*/site-packages")]
    if programs == own_programs():
        packages += sys.path
    missing = [
        library for extra in extras for library in _of_extra(extra)
        if not any(list(distributions(name=name, path=packages)) for name in (library, f"{library}-cpu"))
    ]
    if missing:
        message = f"the ranks need {', '.join(missing)}, and {folder} does not have {'it' if len(missing) == 1 else 'them'}"
        fix = f"run: {programs / 'python'} -m pip install 'trainwright-trainer[{','.join(extras)}]'"
        small = "; where you need no CUDA, first: pip install torch --index-url https://download.pytorch.org/whl/cpu"
        yield Blocker("this machine", message, fix + (small if "torch" in missing else ""))


def check_ray(objects: Objects, programs: Path) -> Iterator[Blocker]:
    """Whether that environment has Ray's dashboard, through which a RayJob is handed in: without it Ray starts none."""
    packages = [str(path) for path in programs.parent.glob("lib/python3*/site-packages")]
    if any(slot.spec.starts_ray for slot in objects.slots) and not list(distributions(name="aiohttp-cors", path=packages)):
        yield Blocker("this machine", f"a RayJob is handed in through Ray's dashboard, which {programs.parent} does not have",
                      f"run: {programs / 'python'} -m pip install 'ray[default]'")


def _of_extra(extra: str) -> list[str]:
    """Distributions that an extra of our trainer's package asks for by itself."""
    lines = (line.partition(";") for line in requires("trainwright-trainer") or ())
    names = [re.match(r"[A-Za-z0-9._-]+", name) for name, _, marker in lines if re.search(rf"extra == .{extra}.$", marker)]
    return [name[0] for name in names if name]


def check_addresses(objects: Objects, network: Network) -> Iterator[Blocker]:
    """Whether each pod can have its loopback address, and whether its declared ports are free there."""
    for slot in objects.slots if isinstance(network, Loopback) else ():
        address = network.address(slot.number)
        ports = [one.container_port for container in slot.spec.all_containers for one in container.ports]
        for port in dict.fromkeys([0, *map(network.port, ports)]):
            if problem := _try_to_bind(address, port):
                yield Blocker(f"this machine, address {address} of {slot.name}", *problem)
                break


def _try_to_bind(address: str, port: int) -> tuple[str, str] | None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as attempt:
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            attempt.bind((address, port))
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                return "this machine does not have that address", f"on macOS, add it: sudo ifconfig lo0 alias {address}"
            if error.errno == errno.EADDRINUSE:
                return f"port {port} is in use on all addresses", "stop the process that listens there"
            return f"port {port} cannot be used: {error.strerror}", "free the address"
    return None
