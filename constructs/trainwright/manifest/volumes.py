"""Volumes of the training pod and where its container mounts them."""

from __future__ import annotations

import re
from typing import Any

from trainwright.handshake import Process
from trainwright.locate import escape
from trainwright.manifest.why import Why
from trainwright.plan import Plan
from trainwright.run import ClaimMount, Run
from trainwright_trainer.contract.layout import SPEC_DIRECTORY

RESERVED_PATHS = ("/dev/shm", "/tmp", SPEC_DIRECTORY)  # noqa: S108 - paths inside the container
"""Mount paths that the plan owns."""

_LABEL = re.compile(r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")
_OWN_VOLUMES = frozenset({"shm", "tmp", "spec"})


def volumes(run: Run, plan: Plan, process: Process) -> list[dict[str, Any]]:
    """Shared memory, scratch, the specification, then the run's own mounts; a claim mounted twice is one volume."""
    own: list[dict[str, Any]] = [
        {
            "name": "shm",
            "emptyDir": {"medium": "Memory", "sizeLimit": Why(str(plan.resources.shm), "trainwright", plan.resources.shm_reason)},
        },
        {"name": "tmp", "emptyDir": Why({}, "trainwright", "scratch: the root file system is read-only")},
    ]
    if process.supervised:
        own.append({"name": "spec", "configMap": {"name": Why(plan.name, "trainwright", "the run's specification")}})
    names = volume_names(run)
    for path, mount in run.mounts.items():
        source = f"run:/mounts/{escape(path)}"
        if not isinstance(mount, ClaimMount):
            own.append({"name": names[path], "emptyDir": {"sizeLimit": Why(str(mount.scratch), source, "scratch as asked")}})
        elif names[path] not in {volume["name"] for volume in own}:
            claim: dict[str, Any] = {"claimName": Why(mount.claim, f"{source}/claim", "as asked")}
            if all(m.read_only for m in run.mounts.values() if isinstance(m, ClaimMount) and m.claim == mount.claim):
                claim["readOnly"] = Why(True, f"{source}/read_only", "every mount of this claim is read-only")
            own.append({"name": names[path], "persistentVolumeClaim": claim})
    return own


def volume_mounts(run: Run, plan: Plan, process: Process) -> list[dict[str, Any]]:
    """In the order of the volumes."""
    mounts: list[dict[str, Any]] = [
        {"name": "shm", "mountPath": Why("/dev/shm", "trainwright", plan.resources.shm_reason)},  # noqa: S108
        {"name": "tmp", "mountPath": Why("/tmp", "trainwright", "scratch: the root file system is read-only")},  # noqa: S108
    ]
    if process.supervised:
        mounts.append(
            {"name": "spec", "mountPath": Why(SPEC_DIRECTORY, "trainwright", "the run's specification"), "readOnly": True}
        )
    names = volume_names(run)
    for path, mount in run.mounts.items():
        source = f"run:/mounts/{escape(path)}"
        entry: dict[str, Any] = {"name": names[path], "mountPath": Why(path, source, "as asked")}
        if isinstance(mount, ClaimMount) and mount.sub_path:
            entry["subPath"] = Why(mount.sub_path, f"{source}/sub_path", "as asked")
        if isinstance(mount, ClaimMount) and mount.read_only:
            entry["readOnly"] = Why(True, f"{source}/read_only", "as asked")
        mounts.append(entry)
    return mounts


def volume_names(run: Run) -> dict[str, str]:
    """Mount path -> volume name: the claim's own name where that is a free DNS label, else a numbered one."""
    names: dict[str, str] = {}
    by_claim: dict[str, str] = {}
    for number, (path, mount) in enumerate(run.mounts.items()):
        if not isinstance(mount, ClaimMount):
            names[path] = f"scratch-{number}"
            continue
        name = mount.claim if _LABEL.match(mount.claim) and mount.claim not in _OWN_VOLUMES else f"claim-{number}"
        if name.startswith(("scratch-", "claim-")):  # the names that are given here
            name = f"claim-{number}"
        names[path] = by_claim.setdefault(mount.claim, name)
    return names
