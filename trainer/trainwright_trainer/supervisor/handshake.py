"""Handshake: what every pod must have in common with node 0 before they train together.

It finds the pods of a roll-out that is only half done: another ConfigMap here, another image there.
"""

from __future__ import annotations

from collections.abc import Mapping

from trainwright_trainer import __version__
from trainwright_trainer.rank import software
from trainwright_trainer.supervisor.wire.messages import Join


def difference(join: Join, versions: Mapping[str, str], sha256: str, pods: int) -> str | None:
    """In what a pod differs from node 0, for a sentence that names the pod first; None where they may train together.

    Args:
        join: The pod's first word.
        versions: Of its software, which it says next.
        sha256: Of node 0's specification.
        pods: Of the run.
    """
    if join.sha256 != sha256:
        return (
            f"their specifications have the sha256 {join.sha256[:12]} and {sha256[:12]}; "
            "every pod must mount the same ConfigMap"
        )
    if join.version != __version__:
        return f"their trainers are of version {join.version} and {__version__}; every pod must run the same image"
    if not 0 < join.node < pods:
        return f"it says that it is node {join.node}, which is not one of 1 to {pods - 1}"
    if different := software.difference(versions, software.installed()):
        return f"they have {different}; every pod must run the same image"
    return None
