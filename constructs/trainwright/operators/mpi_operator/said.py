"""What an MPIJob says of its run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainwright.objects.fields import text
from trainwright.operators.mpi_operator.emit import IMPLEMENTATIONS
from trainwright.operators.operator import Around
from trainwright.operators.said import Said, seconds, stated
from trainwright.operators.training_operator.said import POLICY, queue, replicas


def said(manifest: Mapping[str, Any], around: Around) -> Said:
    parts = replicas(manifest, "mpiReplicaSpecs", "", {"Launcher": False, "Worker": True}, "job-role")
    words: dict[str, tuple[Any, str]] = {
        **dict(stated(manifest, {"/spec/slotsPerWorker": "/topology/processes_per_node", f"{POLICY}/backoffLimit": "/restarts"})),
        **dict(seconds(manifest, f"{POLICY}/activeDeadlineSeconds")),
        **dict(queue(manifest)),
    }
    names = {theirs: ours for ours, theirs in IMPLEMENTATIONS.items()}
    if mpi := names.get(text(manifest, "/spec/mpiImplementation")):
        words["/topology/mpi"] = (mpi, "/spec/mpiImplementation")
    if manifest["spec"].get("runLauncherAsWorker") is True or len(parts) == 1:
        words["/topology/launcher_is_node"] = (True, "/spec/runLauncherAsWorker")
        parts = [one._replace(ranks=True) for one in parts]
    return Said("mpi-job", tuple(parts), ("mpi", "horovod"), words)
