"""The init container that waits until the run's data is complete."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from trainwright.handshake import Role
from trainwright.manifest.labels import FOUNDATION
from trainwright.manifest.limits import literal
from trainwright.manifest.provenance import Tree, Why
from trainwright.manifest.template.containers import pull_policy
from trainwright.manifest.template.security import container_security
from trainwright.manifest.template.volumes import prepared_in, volume_names
from trainwright.plan import Resolution
from trainwright.plan.model import DataPlan
from trainwright.plan.security import OWN
from trainwright.run import ClaimMount


@cache
def _script() -> str:
    return Path(__file__).with_name("await.sh").read_text(encoding="utf-8")


AWAIT_CONTAINER = "await-data"


def await_containers(resolution: Resolution, role: Role) -> list[Why]:
    """One container for all data sets of the run; none if it prepares none.

    It uses the pod's own image, which the node needs anyway: with the tool's image, a newer tool would make another run.
    """
    run, plan, (image, stated) = resolution.run, resolution.plan, resolution.image(role)
    awaited = prepared_in(resolution, role)
    if not awaited:
        return []
    budget, selector = int(run.peer_wait.seconds), ",".join(f"{key}={value}" for key, value in FOUNDATION.items())
    reason = "each is written when the data is complete; another source has another one, so it is another run"
    patience = "how long pods wait for what is not there yet"
    amounts = {"cpu": "100m", "memory": "128Mi"}
    command = ["/bin/sh", "-c", _script(), AWAIT_CONTAINER]
    last = "the last lines of the log say what is missing"
    return [
        Why({
            "name": AWAIT_CONTAINER,
            "image": Why(image, stated, "the pod's own image, which is needed anyway; all it takes is a shell"),
            **pull_policy(run),
            "command": Why(command, "trainwright", "looks for the markers, and says what is missing when its time is over"),
            "args": Why([literal(data.marker) for data in awaited], "run:/prepare", reason),
            "env": [
                Why({"name": "BUDGET_SECONDS", "value": str(budget)}, "run:/peer_wait", patience),
                Why({"name": "NAMESPACE", "value": plan.namespace}, "run:/namespace", "for the message"),
                Why({"name": "SELECTOR", "value": selector}, "trainwright", "for the message: what finds the Jobs"),
            ],
            "resources": {"requests": dict(amounts), "limits": dict(amounts)},
            "terminationMessagePolicy": Why("FallbackToLogsOnError", "trainwright", last),
            "securityContext": container_security(OWN),
            "volumeMounts": Why(_mounts(resolution, role, awaited), "trainwright", "the claims as they are mounted, read-only"),
        }, "trainwright", "keeps the ranks back until their data is complete; as strict and as small as can be"),
    ]


def _mounts(resolution: Resolution, role: Role, awaited: Sequence[DataPlan]) -> list[Tree]:
    """The claims as the run mounts them: markers lie beside the folders of the data."""
    stated, mounts = resolution.mounts[role.name], []
    names = volume_names(stated)
    for path in dict.fromkeys(data.mount for data in awaited):
        mount = stated[path].value
        assert isinstance(mount, ClaimMount)  # noqa: S101 - the plan takes no other
        entry: Tree = {"name": names[path], "mountPath": Why(path, "run:/mounts", "where the markers are")}
        if mount.sub_path:
            entry["subPath"] = Why(mount.sub_path, "run:/mounts", "as asked")
        mounts.append(entry | {"readOnly": True})
    return mounts
